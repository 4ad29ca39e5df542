// The corpus files in a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/data_files.h"

namespace gptrain {

enum class CorpusFiles { all, json_lines };

struct FolderCorpus {
    std::vector<std::string> files;  ///< sorted
    std::vector<std::string> notes;  ///< lines: the part that was chosen, and what is left out
};

/// The .parquet files of a folder, those of named_json_lines and .txt files, also with .gz or .zst,
/// at any depth, in the order of their paths. Leaves out folders whose names begin with a dot,
/// .meta.json files, the descriptions that the library datasets writes, the files of `tokenizer`,
/// which may be empty, and with `json_lines` .txt files; follows links. Of a data set with several
/// subsets or splits (data_card.h) only the chosen files. Errors (bad_input): a folder without such
/// a file, one that cannot be read, such a name without a regular file, a faulty card; (usage):
/// several subsets, none of them the default, or several splits without a choice, or a choice that
/// is not there.
FolderCorpus corpus_in(const std::filesystem::path& folder, CorpusFiles wanted,
                       const std::filesystem::path& tokenizer, const FolderChoice& choice);

/// Error (usage) if a part was chosen, but there is no folder to choose from.
void require_folder(const FolderChoice& choice, bool any_folder);

}  // namespace gptrain
