// Answers that programs have found on this node, for the programs that come after them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace gptrain {

/// Answers to questions, each with the state of the world for which it holds: small files in a
/// folder, one for each question. Any number of processes may read and write at once, because a
/// file appears whole. Question, state and answer contain no zeros.
class NodeCache {
public:
    /// In the folder that the environment variable GPTRAIN_NODE_CACHE names; nowhere if it is
    /// "off". By default in gptrain-UID in the folder for temporary files.
    static NodeCache of_this_user();

    /// Keeps nothing.
    NodeCache() = default;
    /// Makes the folder if it is missing. Keeps nothing, after a warning, if other users may write
    /// there, and without one if there can be no such folder.
    explicit NodeCache(const std::filesystem::path& folder);

    /// The answer that was kept for this state within the last day. A damaged file, and one that
    /// another program has written, counts as missing, after a warning.
    std::optional<std::string> find(const std::string& question, const std::string& state) const;
    /// Keeps an answer in the place of any other for the question, if the system allows.
    void keep(const std::string& question, const std::string& state,
              const std::string& answer) const;

private:
    std::filesystem::path file_of(const std::string& question) const;

    std::filesystem::path folder_;  ///< empty: keeps nothing
};

}  // namespace gptrain
