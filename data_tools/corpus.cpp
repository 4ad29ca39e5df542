#include "corpus.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <sys/stat.h>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace gptrain {
namespace {

constexpr std::int64_t chunk_bytes = 256 << 10;
constexpr std::size_t chunk_records = 4096;

namespace fs = std::filesystem;

/// Files of shared models beyond shared_tokenizer_names and companion_names.
constexpr std::string_view further_names[] = {"encoder.json", "vocab.bpe", "config.json"};

/// Two paths with the same one lead to the same file.
struct FileIdentity {
    dev_t device = 0;
    ino_t inode = 0;

    auto operator<=>(const FileIdentity&) const = default;
};

/// Nothing if there is no such file.
std::optional<FileIdentity> identity_of(const fs::path& path) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) return std::nullopt;
    return FileIdentity{status.st_dev, status.st_ino};
}

/// The ending of a name, of a compressed file both: ".csv.gz".
std::string ending_of(const fs::path& path) {
    if (path.filename().string().ends_with(".meta.json")) return ".meta.json";
    const fs::path name = uncompressed_name(path);
    const std::string compressed = name == path.filename() ? "" : path.extension().string();
    return name.extension().string() + compressed;
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
            // Links come after the folders themselves, which keep their paths.
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
        const bool is_corpus =
            ending != ".meta.json" &&
            (named_json_lines(path) ||
             (wanted_ == CorpusFiles::all && uncompressed_name(path).extension() == ".txt"));
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

bool is_pipe(const std::string& path) {
    std::error_code error;
    const auto type = fs::status(path, error).type();
    return type == fs::file_type::fifo || type == fs::file_type::character ||
           type == fs::file_type::socket;
}

/// Warns if two inputs are one file, as a link may be.
void warn_of_repeated(const std::vector<std::string>& inputs) {
    std::map<FileIdentity, std::string> known;
    for (const std::string& path : inputs) {
        const auto identity = identity_of(path);
        if (!identity) continue;
        const auto [first, is_new] = known.emplace(*identity, path);
        if (is_new) continue;
        warn("--input: ", path, " is read twice",
             first->second == path ? "" : ", also as " + first->second);
    }
}

/// Warns of a file next to a compressed one of the same name.
void warn_of_copies(const std::vector<std::string>& inputs) {
    std::map<fs::path, std::string> known;
    std::string example;
    std::int64_t copies = 0;
    for (const std::string& path : inputs) {
        const auto [first, is_new] = known.emplace(folder_of(path) / uncompressed_name(path), path);
        if (is_new) continue;
        if (++copies == 1) example = text(first->second, " and ", path);
    }
    if (copies == 0) return;
    const std::string more = copies > 1 ? text(" (and ", copies - 1, " more such pairs)") : "";
    warn("reading both ", example, more, ": if they hold the same text, leave one of them out");
}

/// Warns of plain text that looks like something else.
void check_prose(const std::string& path, const CorpusOptions& options,
                 const RecordReader& reader) {
    if (options.format != InputFormat::by_name || format_of(path, options).json_lines) return;
    if (const auto warning = prose_warning(path, reader.start()); !warning.empty()) warn(warning);
}

}  // namespace

void expand_inputs(CorpusOptions& options, CorpusFiles files, const std::string& tokenizer) {
    std::vector<std::string> expanded;
    for (const std::string& input : options.inputs) {
        std::error_code error;
        if (input == "-") {
            expanded.emplace_back("/dev/stdin");
            continue;
        }
        if (!fs::is_directory(input, error)) {
            expanded.push_back(input);
            continue;
        }
        FolderSearch search(files, tokenizer);
        const std::vector<std::string> inside = search.files_in(input);
        if (inside.empty()) {
            fail(ExitCode::bad_input, input,
                 files == CorpusFiles::all ? ": a folder without a .txt, .json or .jsonl file"
                                           : ": a folder without a .json or .jsonl file",
                 " (or one of these with .gz or .zst)");
        }
        expanded.insert(expanded.end(), inside.begin(), inside.end());
        if (const std::string others = search.others(); !others.empty())
            options.notes.push_back(
                text(input, ": leaves out the files with other endings: ", others));
    }
    options.inputs = std::move(expanded);
}

CorpusFormat format_of(const std::string& path, const CorpusOptions& options) {
    CorpusFormat format = options.documents;
    format.json_lines = options.format == InputFormat::json_lines ||
                        (options.format == InputFormat::by_name && named_json_lines(path));
    return format;
}

void check_inputs(const CorpusOptions& options) {
    warn_of_repeated(options.inputs);
    warn_of_copies(options.inputs);
    bool any_json = false;
    bool any_text = false;
    for (const std::string& path : options.inputs) {
        const CorpusFormat format = format_of(path, options);
        any_json = any_json || format.json_lines;
        any_text = any_text || !format.json_lines;
        // Opening a file reads its first bytes, which would be lost from a pipe.
        if (!is_pipe(path)) check_prose(path, options, open_corpus(path, format));
    }
    for (const std::string& note : options.notes)
        print(note);
    if (options.documents_given && !any_text) {
        fail(ExitCode::usage,
             "--documents applies to plain text, but every input is read as JSON lines ",
             "(--format text reads them as plain text)");
    }
    if (options.json_key_given && !any_json) {
        fail(ExitCode::usage,
             "--json-key applies to JSON lines, but every input is read as plain text ",
             "(--format jsonl reads them as JSON lines)");
    }
}

void require_other_files(const CorpusOptions& options, const std::vector<fs::path>& outputs,
                         const std::string& option) {
    std::map<FileIdentity, fs::path> existing;
    for (const fs::path& output : outputs) {
        if (const auto identity = identity_of(output)) existing.emplace(*identity, output);
    }
    if (existing.empty()) return;
    for (const std::string& input : options.inputs) {
        const auto identity = identity_of(input);
        const auto output = identity ? existing.find(*identity) : existing.end();
        if (output == existing.end()) continue;
        fail(ExitCode::usage, option, ": would overwrite ", output->second.string(),
             ", which is an input; choose another prefix");
    }
}

std::optional<std::int64_t> total_bytes(const CorpusOptions& options) {
    std::int64_t total = 0;
    for (const std::string& path : options.inputs) {
        std::error_code error;
        const auto bytes = std::filesystem::file_size(path, error);
        if (error || is_compressed(path)) return std::nullopt;
        total += static_cast<std::int64_t>(bytes);
    }
    return total;
}

std::vector<InputRange> share_inputs(const CorpusOptions& options, std::size_t ranks) {
    const std::size_t count = options.inputs.size();
    if (ranks == 1) return {{0, count}};
    std::vector<std::int64_t> ends;  // of each input in all bytes; one more each, for empty files
    std::int64_t total = 0;
    for (const std::string& path : options.inputs) {
        std::error_code error;
        const auto bytes = std::filesystem::file_size(path, error);
        if (error) {
            fail(ExitCode::usage, path,
                 ": is not a file, and only one process can read it; start gpt-preprocess without "
                 "a launcher");
        }
        total = checked_add(total, checked_add(static_cast<std::int64_t>(bytes), 1));
        ends.push_back(total);
    }
    std::vector<InputRange> ranges(ranks);
    std::size_t input = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const double share = static_cast<double>(rank + 1) / static_cast<double>(ranks);
        const double limit = static_cast<double>(total) * share;
        ranges[rank].begin = input;
        // An input belongs to the rank in whose share its middle lies.
        const auto middle = [&] {
            const std::int64_t begin = input == 0 ? 0 : ends[input - 1];
            return 0.5 * (static_cast<double>(begin) + static_cast<double>(ends[input]));
        };
        while (input < count && (middle() < limit || rank + 1 == ranks))
            ++input;
        ranges[rank].end = input;
    }
    return ranges;
}

void EmptyInputs::add(std::size_t input) {
    ++count;
    if (first.size() < most_named) first.push_back(input);
}

void EmptyInputs::add(const EmptyInputs& later) {
    for (const std::size_t input : later.first)
        add(input);
    count += later.count - std::ssize(later.first);
}

void warn_of_empty(const EmptyInputs& empty, const std::vector<std::string>& inputs) {
    if (empty.count == 0) return;
    std::string names;
    for (const std::size_t input : empty.first)
        append(names, text(names.empty() ? "" : ", ", inputs[input]));
    warn(counted(empty.count, "input file"), empty.count == 1 ? " holds" : " hold",
         " no document: ", names, empty.count > std::ssize(empty.first) ? ", ..." : "");
}

bool CorpusReader::next(Chunk& chunk) {
    chunk = {};
    while (file_ < end_) {
        const std::string& path = options_.inputs[file_];
        if (!reader_) {
            reader_.emplace(open_corpus(path, format_of(path, options_)));
            if (is_pipe(path)) check_prose(path, options_, *reader_);
        }
        const std::int64_t begin = reader_->position();
        chunk.file = file_;
        Record record;
        while (chunk.bytes < chunk_bytes && chunk.records.size() < chunk_records &&
               reader_->next(record)) {
            chunk.records.push_back(std::move(record));
            chunk.bytes = reader_->position() - begin;
        }
        if (!chunk.records.empty()) return found_ = true;
        if (!std::exchange(found_, false)) empty_.add(file_);
        reader_.reset();
        ++file_;
    }
    return false;
}

}  // namespace gptrain
