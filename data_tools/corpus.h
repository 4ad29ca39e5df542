// The input files of a command, as a stream of documents.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/documents.h"

namespace gptrain {

enum class InputFormat { by_name, json_lines, plain_text };

struct CorpusOptions {
    std::vector<std::string> inputs;
    InputFormat format = InputFormat::by_name;
    CorpusFormat documents;  ///< its `json_lines` is set for each file by `format`
    bool skip_faulty = false;
    bool json_key_given = false;   ///< on the command line
    bool documents_given = false;  ///< on the command line
};

/// How the file is read: by name, `.json`, `.jsonl` and these with `.gz` are JSON lines, all others
/// plain text.
CorpusFormat format_of(const std::string& path, const CorpusOptions& options);

/// Refuses what would otherwise show only after hours, as Error: inputs that do not exist
/// (bad_input), and options that no input makes use of (usage). Warns of inputs that are read as
/// plain text by their name and look like something else.
void check_inputs(const CorpusOptions& options);

/// Bytes of all inputs together; nothing if one is not a regular file or is packed.
std::optional<std::int64_t> total_bytes(const CorpusOptions& options);

/// Records from one file.
struct Chunk {
    std::size_t file = 0;
    std::int64_t bytes = 0;  ///< of input that it stands for
    std::vector<Record> records;
};

/// The records of all inputs in order, in chunks of about 256 KiB.
class CorpusReader {
public:
    explicit CorpusReader(const CorpusOptions& options) : options_(options) {}
    /// False at the end.
    bool next(Chunk& chunk);

private:
    const CorpusOptions& options_;
    std::size_t file_ = 0;
    std::optional<RecordReader> reader_;
};

/// Where and why a document was not used.
struct PlacedFault {
    std::string place;  ///< "FILE:LINE: byte OFFSET"
    FaultyDocument document;
};

PlacedFault placed(FaultyDocument document, const std::string& path, const Record& record);

/// Counts and reports documents that are left out.
class FaultLog {
public:
    explicit FaultLog(bool skip) : skip_(skip) {}
    /// Policy stop: throws an Error (bad_input). Policy skip: warns of the first ten, counts all.
    void add(const PlacedFault& fault);
    std::int64_t count() const { return count_; }
    /// "left out 3 documents: 2 with invalid UTF-8, 1 with a missing key"; nothing to say: empty.
    std::string summary() const;

private:
    bool skip_;
    std::int64_t count_ = 0;
    std::array<std::int64_t, document_fault_kinds> by_kind_{};
};

}  // namespace gptrain
