// The corpus files in a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gptrain {

enum class CorpusFiles { all, json_lines };

struct FolderCorpus {
    std::vector<std::string> files;  ///< sorted
    std::string note;                ///< what the folder holds besides, a line; empty: nothing
};

/// The .txt, .json and .jsonl files of a folder, also with .gz or .zst, at any depth, in the order
/// of their paths. Leaves out folders whose names begin with a dot, .meta.json files, the files of
/// `tokenizer`, which may be empty, and with `json_lines` .txt files; follows links. A folder
/// without such a file, one that cannot be read, or such a name without a regular file is an Error
/// (bad_input).
FolderCorpus corpus_in(const std::filesystem::path& folder, CorpusFiles wanted,
                       const std::filesystem::path& tokenizer);

}  // namespace gptrain
