// The files of a data set in a folder, as its card (README.md) and their names divide them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

/// A part of a data set.
struct CardSplit {
    std::string name;
    std::vector<std::string> patterns;  ///< of paths in the folder
};

struct CardSubset {
    std::string name;
    bool is_default = false;
    std::vector<CardSplit> splits;
};

/// The subsets that the key `configs` of a card lists, as on Hugging Face: a name, and for each
/// split patterns of files. Empty if there is no card or no such key. Error (bad_input): the key
/// has another form.
std::vector<CardSubset> read_data_card(const std::filesystem::path& card);

/// True if the path has the pattern: `*` stands for characters but no slash, `?` for one, `[a-z]`
/// for one of these, and the part `**` for any folders.
bool matches_pattern(std::string_view path, std::string_view pattern);

/// The split that the name of a file is made for: SPLIT of `data/SPLIT-00000-of-00002.parquet`, or
/// else "train", "validation" or "test" by the last word of the path that means one of these, such
/// as "dev". Empty if there is none.
std::string split_in_name(std::string_view path);

}  // namespace gptrain
