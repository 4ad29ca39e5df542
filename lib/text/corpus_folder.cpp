#include "text/corpus_folder.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/inputs.h"
#include "base/letters.h"
#include "parquet/parquet_file.h"
#include "text/documents.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_files.h"

namespace gptrain {
namespace {

namespace fs = std::filesystem;

/// Files of shared models beyond shared_tokenizer_names and companion_names.
constexpr std::string_view further_names[] = {"encoder.json", "vocab.bpe", "config.json"};

/// Files that the library datasets writes next to its data.
constexpr std::string_view descriptions[] = {"dataset_info.json", "dataset_infos.json",
                                             "dataset_dict.json", "state.json"};

/// The ending of a name, of a compressed file both: ".csv.gz".
std::string ending_of(const fs::path& path) {
    if (path.filename().string().ends_with(".meta.json")) return ".meta.json";
    const fs::path name = uncompressed_name(path);
    const std::string compressed = name == path.filename() ? "" : path.extension().string();
    return name.extension().string() + compressed;
}

bool is_description(const fs::path& path) {
    return std::ranges::find(descriptions, path.filename().string()) != std::end(descriptions);
}

bool named_text(const fs::path& path) {
    return in_lower_case(uncompressed_name(path).extension().string()) == ".txt";
}

/// Finds the corpus files in a folder.
class FolderSearch {
public:
    FolderSearch(CorpusFiles wanted, const fs::path& tokenizer) : wanted_(wanted) {
        if (tokenizer.empty()) return;
        add_tokenizer_file(tokenizer);
        std::error_code missing;
        const bool is_folder = fs::is_directory(tokenizer, missing);
        const bool is_shared =
            named_vocabulary(tokenizer) || tokenizer.filename() == exported_sentencepiece_name ||
            std::find(std::begin(shared_tokenizer_names), std::end(shared_tokenizer_names),
                      tokenizer.filename().string()) != std::end(shared_tokenizer_names);
        const fs::path folder = is_folder ? tokenizer : folder_of(tokenizer);
        const auto add_all = [&](const auto& names) {
            for (const std::string_view name : names)
                add_tokenizer_file(folder / name);
        };
        add_all(companion_names);
        if (!is_folder && !is_shared) return;
        add_all(shared_tokenizer_names);
        add_all(further_names);
        add_tokenizer_file(folder / exported_sentencepiece_name);
    }

    /// The files at any depth, sorted. A folder that several links lead to is searched once.
    std::vector<std::string> files_in(const fs::path& folder) {
        try {
            search(folder);
            // Search links last, so that folders keep their own paths.
            for (std::size_t i = 0; i < links_.size(); ++i)
                search(fs::path(links_[i]));
        } catch (const fs::filesystem_error& error) {
            fail(ExitCode::bad_input, error.path1().string(),
                 ": cannot read the folder: ", error.code().message());
        }
        std::sort(files_.begin(), files_.end());
        return std::move(files_);
    }

    /// "2 .csv, 1 .md"; empty if every file is a corpus file.
    std::string others() const {
        constexpr std::size_t most = 8;
        std::string counts;
        std::size_t named = 0;
        for (const auto& [ending, count] : others_) {
            if (++named > most) return counts + ", ...";
            append(counts, text(counts.empty() ? "" : ", ", count, " ",
                                ending.empty() ? "without an ending" : ending));
        }
        return counts;
    }

private:
    void add_tokenizer_file(const fs::path& path) {
        if (const auto identity = identity_of(path)) tokenizer_.insert(*identity);
    }

    void search(const fs::path& folder) {
        if (!searched_.insert(fs::canonical(folder)).second) return;
        std::vector<fs::path> links;
        for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
            std::error_code dangling;
            const bool is_folder = entry.is_directory(dangling);
            const bool is_hidden = entry.path().filename().string().starts_with('.');
            if (!is_folder && is_hidden) {
                ++others_["hidden"];
            } else if (!is_folder) {
                add_file(entry.path());
            } else if (is_hidden) {
                continue;
            } else if (entry.is_symlink()) {
                links.push_back(entry.path());
            } else {
                search(entry.path());
            }
        }
        std::sort(links.begin(), links.end());
        links_.insert(links_.end(), links.begin(), links.end());
    }

    void add_file(const fs::path& path) {
        const auto identity = identity_of(path);
        if (identity && tokenizer_.contains(*identity)) return;
        const std::string ending = ending_of(path);
        const bool is_corpus = ending != ".meta.json" && !is_description(path) &&
                               (named_json_lines(path) || named_parquet(path) ||
                                (wanted_ == CorpusFiles::all && named_text(path)));
        if (!is_corpus) {
            ++others_[ending];
            return;
        }
        if (require_path(path, ExitCode::bad_input, "file") != fs::file_type::regular)
            fail(ExitCode::bad_input, path.string(), ": not a regular file");
        files_.push_back(path.string());
    }

    CorpusFiles wanted_;
    std::set<FileIdentity> tokenizer_;  ///< it, and the files of its folder
    std::set<fs::path> searched_;
    std::vector<fs::path> links_;
    std::vector<std::string> files_;
    std::map<std::string, std::int64_t> others_;
};

}  // namespace

FolderCorpus corpus_in(const fs::path& folder, CorpusFiles wanted, const fs::path& tokenizer,
                       const FolderChoice& choice) {
    FolderSearch search(wanted, tokenizer);
    FolderCorpus corpus = {.files = search.files_in(folder), .notes = {}};
    const std::string others = search.others();
    if (corpus.files.empty()) {
        fail(ExitCode::bad_input, folder.string(), ": a folder without a .parquet, ",
             wanted == CorpusFiles::all ? ".txt, .json or .jsonl file" : ".json or .jsonl file",
             " (or one of the latter with .gz or .zst)",
             others.find(".arrow") != std::string::npos
                 ? "; write its .arrow files as Parquet, with to_parquet of the library datasets"
                 : "");
    }
    if (std::string note = choose_files(folder, choice, corpus.files); !note.empty())
        corpus.notes.push_back(std::move(note));
    if (!others.empty())
        corpus.notes.push_back(
            text(folder.string(), ": leaves out the files with other endings: ", others));
    return corpus;
}

void require_folder(const FolderChoice& choice, bool any_folder) {
    if (any_folder || (choice.subset.empty() && choice.split.empty())) return;
    fail(ExitCode::usage, choice.subset.empty() ? "--split" : "--subset",
         " chooses files of a folder, but no input is one");
}

}  // namespace gptrain
