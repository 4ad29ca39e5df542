// Which algorithm computes which product, or that its epilogue is done apart: found once by timing,
// then kept and given to all ranks, because another one may give other bits. The table knows
// neither shapes nor algorithms: both are words.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace gptrain::cuda {

/// Text form: a first line that names the version of the form and the machine (GPU and library),
/// then a line "KEY ALGORITHM" for each product in the order of the keys, and a last line with the
/// number of these. Both words are without blanks.
class TuningTable {
public:
    /// Kept in `file`, or in memory alone where that is empty.
    explicit TuningTable(std::filesystem::path file = {}) : file_(std::move(file)) {}

    /// Says for which machine entries are made and reads the file. A table of another machine, or a
    /// file that is not whole, counts as empty, which is said in a warning: results may then differ
    /// in their last bits from those before.
    void open(const std::string& machine);

    std::optional<std::string> find(const std::string& key) const;
    /// Adds or replaces an entry.
    void note(const std::string& key, const std::string& algorithm);
    /// Writes the file.
    void save() const;

    std::string to_text() const;
    /// The entries become those of the text. They become none, and false is returned, if it is of
    /// another machine or not whole.
    bool take(std::string_view text);

private:
    std::filesystem::path file_;
    std::string machine_;
    std::map<std::string, std::string> entries_;
};

}  // namespace gptrain::cuda
