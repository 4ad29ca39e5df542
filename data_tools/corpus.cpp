#include "corpus.h"

#include <map>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "base/inputs.h"
#include "base/log.h"
#include "parquet/parquet_file.h"

namespace gptrain {
namespace {

constexpr std::int64_t chunk_bytes = 256 << 10;
constexpr std::size_t chunk_records = 4096;
/// A thread decodes Snappy about ten times as fast as another tokenizes the text.
constexpr std::size_t workers_per_reader = 8;

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
                 const RecordSource& reader) {
    if (options.format != InputFormat::by_name || format_of(path, options).json_lines) return;
    if (const auto warning = prose_warning(path, reader.start()); !warning.empty()) warn(warning);
}

/// A part of the inputs that one rank reads.
struct InputPart {
    InputPosition begin;
    std::int64_t end_byte =
        0;  // of all bytes of the inputs; a part has one more, as it may be empty
};

/// Adds the row groups of a Parquet file, or another file as a whole.
void add_parts(std::size_t input, const std::string& path, std::vector<InputPart>& parts) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (error) {
        fail(ExitCode::usage, path,
             ": is not a file, and only one process can read it; start gpt-preprocess without a "
             "launcher");
    }
    std::vector<std::int64_t> sizes;
    if (named_parquet(path)) sizes = group_bytes(ParquetFile(path));
    if (sizes.empty()) sizes = {static_cast<std::int64_t>(size)};
    for (std::size_t group = 0; group < sizes.size(); ++group) {
        const std::int64_t begin = parts.empty() ? 0 : parts.back().end_byte;
        parts.push_back({{input, group}, checked_add(begin, checked_add(sizes[group], 1))});
    }
}

}  // namespace

void expand_inputs(CorpusOptions& options, CorpusFiles files, const std::string& tokenizer) {
    std::vector<std::string> expanded;
    bool any_folder = false;
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
        any_folder = true;
        const FolderCorpus corpus = corpus_in(input, files, tokenizer, options.folders);
        expanded.insert(expanded.end(), corpus.files.begin(), corpus.files.end());
        options.notes.insert(options.notes.end(), corpus.notes.begin(), corpus.notes.end());
    }
    require_folder(options.folders, any_folder);
    options.inputs = std::move(expanded);
}

CorpusFormat format_of(const std::string& path, const CorpusOptions& options) {
    CorpusFormat format = options.documents;
    format.json_lines = options.format == InputFormat::json_lines || named_parquet(path) ||
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
        if (!is_pipe(path)) check_prose(path, options, *open_corpus(path, format));
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
        if (error || is_compressed(path) || named_parquet(path)) return std::nullopt;
        total += static_cast<std::int64_t>(bytes);
    }
    return total;
}

InputRange all_inputs(const CorpusOptions& options) {
    return {{}, {options.inputs.size(), 0}};
}

std::vector<InputRange> share_inputs(const CorpusOptions& options, std::size_t ranks) {
    if (ranks == 1) return {all_inputs(options)};
    std::vector<InputPart> parts;
    for (std::size_t input = 0; input < options.inputs.size(); ++input)
        add_parts(input, options.inputs[input], parts);
    const InputPosition end = all_inputs(options).end;
    const std::int64_t total = parts.empty() ? 0 : parts.back().end_byte;
    std::vector<InputRange> ranges(ranks);
    std::size_t next = 0;
    const auto position = [&] { return next < parts.size() ? parts[next].begin : end; };
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const double share = static_cast<double>(rank + 1) / static_cast<double>(ranks);
        const double limit = static_cast<double>(total) * share;
        ranges[rank].begin = position();
        // A part belongs to the rank whose share contains its middle.
        const auto middle = [&] {
            const std::int64_t begin = next == 0 ? 0 : parts[next - 1].end_byte;
            return 0.5 * (static_cast<double>(begin) + static_cast<double>(parts[next].end_byte));
        };
        while (next < parts.size() && (middle() < limit || rank + 1 == ranks))
            ++next;
        ranges[rank].end = position();
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

bool CorpusReader::is_whole() const {
    const bool from_start = file_ > range_.begin.input || range_.begin.group == 0;
    return from_start && file_ < range_.end.input;
}

void CorpusReader::open() {
    const std::string& path = options_.inputs[file_];
    CorpusFormat format = format_of(path, options_);
    format.readers = workers_ / workers_per_reader + 1;
    if (file_ == range_.begin.input) format.groups.begin = range_.begin.group;
    if (file_ == range_.end.input) format.groups.end = range_.end.group;
    reader_ = open_corpus(path, format);
    if (is_pipe(path)) check_prose(path, options_, *reader_);
}

bool CorpusReader::next(Chunk& chunk) {
    chunk = {};
    while (file_ < range_.end.input || (file_ == range_.end.input && range_.end.group > 0)) {
        if (!reader_) open();
        const std::int64_t begin = reader_->position();
        chunk.file = file_;
        Record record;
        while (chunk.bytes < chunk_bytes && chunk.records.size() < chunk_records &&
               reader_->next(record)) {
            chunk.records.push_back(std::move(record));
            chunk.bytes = reader_->position() - begin;
        }
        if (!chunk.records.empty()) return found_ = true;
        if (!std::exchange(found_, false) && is_whole()) empty_.add(file_);
        reader_.reset();
        ++file_;
    }
    return false;
}

}  // namespace gptrain
