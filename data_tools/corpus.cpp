#include "corpus.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"

namespace gptrain {
namespace {

constexpr std::int64_t chunk_bytes = 256 << 10;
constexpr std::size_t chunk_records = 4096;
constexpr std::int64_t reported_faults = 10;

/// The corpus files in a folder, sorted.
std::vector<std::string> files_in(const std::filesystem::path& folder, CorpusFiles wanted) {
    namespace fs = std::filesystem;
    std::vector<std::string> files;
    try {
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
            const fs::path& path = entry.path();
            const bool is_corpus =
                named_json_lines(path) ||
                (wanted == CorpusFiles::all && uncompressed_name(path).extension() == ".txt");
            if (is_corpus && entry.is_regular_file()) files.push_back(path.string());
        }
    } catch (const fs::filesystem_error& error) {
        fail(ExitCode::bad_input, folder.string(),
             ": cannot read the folder: ", error.code().message());
    }
    if (files.empty()) {
        fail(ExitCode::bad_input, folder.string(),
             wanted == CorpusFiles::all ? ": a folder without a .txt, .json or .jsonl file"
                                        : ": a folder without a .json or .jsonl file",
             " (or one of these with .gz or .zst)");
    }
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace

std::vector<std::string> expand_inputs(const std::vector<std::string>& inputs, CorpusFiles files) {
    std::vector<std::string> expanded;
    for (const std::string& input : inputs) {
        std::error_code error;
        if (input == "-") {
            expanded.emplace_back("/dev/stdin");
        } else if (std::filesystem::is_directory(input, error)) {
            const std::vector<std::string> inside = files_in(input, files);
            expanded.insert(expanded.end(), inside.begin(), inside.end());
        } else {
            expanded.push_back(input);
        }
    }
    return expanded;
}

CorpusFormat format_of(const std::string& path, const CorpusOptions& options) {
    CorpusFormat format = options.documents;
    format.json_lines = options.format == InputFormat::json_lines ||
                        (options.format == InputFormat::by_name && named_json_lines(path));
    return format;
}

void check_inputs(const CorpusOptions& options) {
    bool any_json = false;
    bool any_text = false;
    for (const std::string& path : options.inputs) {
        const CorpusFormat format = format_of(path, options);
        any_json = any_json || format.json_lines;
        any_text = any_text || !format.json_lines;
        // Opening a file reads its first bytes, which would be lost from a pipe.
        std::error_code error;
        const auto type = std::filesystem::status(path, error).type();
        const bool is_pipe = type == std::filesystem::file_type::fifo ||
                             type == std::filesystem::file_type::character ||
                             type == std::filesystem::file_type::socket;
        if (is_pipe) continue;
        const RecordReader reader = open_corpus(path, format);
        if (format.json_lines || options.format != InputFormat::by_name) continue;
        if (const auto warning = prose_warning(path, reader.start()); !warning.empty())
            warn(warning);
    }
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

bool CorpusReader::next(Chunk& chunk) {
    chunk = {};
    while (file_ < end_) {
        const std::string& path = options_.inputs[file_];
        if (!reader_) reader_.emplace(open_corpus(path, format_of(path, options_)));
        const std::int64_t begin = reader_->position();
        chunk.file = file_;
        Record record;
        while (chunk.bytes < chunk_bytes && chunk.records.size() < chunk_records &&
               reader_->next(record)) {
            chunk.records.push_back(std::move(record));
            chunk.bytes = reader_->position() - begin;
        }
        if (!chunk.records.empty()) return true;
        reader_.reset();
        ++file_;
    }
    return false;
}

LocatedFault locate(FaultyDocument document, const std::string& path, const Record& record) {
    return {place_of(record, path), std::move(document)};
}

void FaultLog::add(const LocatedFault& fault) {
    if (!skip_) {
        const bool too_long = fault.document.fault == DocumentFault::too_long;
        fail(ExitCode::bad_input, fault.place, ": ", fault.document.what,
             too_long ? "; raise --max-document-bytes" : "; repair it",
             ", or skip such documents with --on-error skip");
    }
    if (count_ < reported_faults) {
        warn(fault.place, ": skipped: ", fault.document.what);
    } else if (count_ == reported_faults) {
        warn("skipping more documents; the total is printed at the end");
    }
    ++count_;
    ++by_kind_[static_cast<std::size_t>(fault.document.fault)];
}

void FaultLog::add(const Counts& others) {
    for (std::size_t kind = 0; kind < by_kind_.size(); ++kind) {
        by_kind_[kind] += others[kind];
        count_ += others[kind];
    }
}

std::string FaultLog::summary() const {
    if (count_ == 0) return "";
    std::string kinds;
    for (std::size_t kind = 0; kind < by_kind_.size(); ++kind) {
        if (by_kind_[kind] == 0) continue;
        kinds += text(kinds.empty() ? ": " : ", ", by_kind_[kind], " with ",
                      name_of(static_cast<DocumentFault>(kind)));
    }
    return text("skipped ", count_, count_ == 1 ? " document" : " documents", kinds);
}

}  // namespace gptrain
