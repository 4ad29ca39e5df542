#include "corpus.h"

#include <map>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "base/inputs.h"
#include "base/log.h"

namespace gptrain {
namespace {

constexpr std::int64_t chunk_bytes = 256 << 10;
constexpr std::size_t chunk_records = 4096;

namespace fs = std::filesystem;

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
        const FolderCorpus corpus = corpus_in(input, files, tokenizer);
        expanded.insert(expanded.end(), corpus.files.begin(), corpus.files.end());
        if (!corpus.note.empty()) options.notes.push_back(corpus.note);
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

void require_other_files(const std::vector<std::string>& inputs,
                         const std::vector<fs::path>& outputs, const std::string& option) {
    std::map<FileIdentity, fs::path> existing;
    for (const fs::path& output : outputs) {
        if (const auto identity = identity_of(output)) existing.emplace(*identity, output);
    }
    if (existing.empty()) return;
    for (const std::string& input : inputs) {
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
        // An input belongs to the rank whose share contains its middle.
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
