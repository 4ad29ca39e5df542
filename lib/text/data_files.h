// The part of a data set in a folder that a user chose.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

/// Empty: no choice.
struct FolderChoice {
    std::string subset;
    std::string split;

    static constexpr std::string_view all_splits = "all";
};

/// Reduces the files of a folder to a subset and a split, as corpus_in says. Returns a line about
/// what was chosen; empty if there was no choice.
std::string choose_files(const std::filesystem::path& folder, const FolderChoice& choice,
                         std::vector<std::string>& files);

}  // namespace gptrain
