// The input files of a command, as a stream of documents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/corpus_folder.h"
#include "text/documents.h"

namespace gptrain {

enum class InputFormat { by_name, json_lines, plain_text };

struct CorpusOptions {
    std::vector<std::string> inputs;
    InputFormat format = InputFormat::by_name;
    CorpusFormat documents;  ///< `format` decides `json_lines` for each file
    bool skip_faulty = false;
    bool json_key_given = false;   ///< on the command line
    bool documents_given = false;  ///< on the command line
    FolderChoice folders;
    std::vector<std::string> notes;  ///< about folders; check_inputs prints them
};

/// Replaces the inputs of a command line by their files: a folder by those of corpus_in, "-" by
/// standard input. Error (usage): a choice of a folder's files, but no folder.
void expand_inputs(CorpusOptions& options, CorpusFiles files, const std::string& tokenizer);

/// The format of a file. A name in .parquet is Parquet, whatever the format. By name, those of
/// named_json_lines are JSON lines; all other files are plain text.
CorpusFormat format_of(const std::string& path, const CorpusOptions& options);

/// Catches early what would otherwise fail only after hours. Throws Error (bad_input) for missing
/// inputs and Error (usage) for options that no input uses. Warns about a file that is read twice.
/// Warns about inputs that are plain text by name but look like something else (a pipe's warning
/// comes when it is read), and about a file with its compressed copy.
void check_inputs(const CorpusOptions& options);

/// Error (usage) that names `option` if one of the inputs is one of the files to be written.
void require_other_files(const std::vector<std::string>& inputs,
                         const std::vector<std::filesystem::path>& outputs,
                         const std::string& option);

/// Total size of all inputs in bytes; nothing if one is not a regular file or is compressed.
std::optional<std::int64_t> total_bytes(const CorpusOptions& options);

/// A place between row groups of an input; files of text have but their beginning.
struct InputPosition {
    std::size_t input = 0;
    std::size_t group = 0;
};

/// Consecutive parts of the inputs, [begin, end).
struct InputRange {
    InputPosition begin;
    InputPosition end;
};

/// All of the inputs.
InputRange all_inputs(const CorpusOptions& options);

/// The share of each of `ranks` ranks, in order, with about the same number of stored bytes for
/// each. Only Parquet files are split, between row groups. Error (usage) if there are several ranks
/// and an input is not a regular file: only one process can read a pipe.
std::vector<InputRange> share_inputs(const CorpusOptions& options, std::size_t ranks);

/// Records from one file.
struct Chunk {
    std::size_t file = 0;
    std::int64_t bytes = 0;  ///< size in the input
    std::vector<Record> records;
};

/// Inputs without a document.
struct EmptyInputs {
    std::int64_t count = 0;
    std::vector<std::size_t> first;  ///< of them, at most `most_named`

    static constexpr std::size_t most_named = 3;
    void add(std::size_t input);
    /// Adds the files that another rank found in its inputs, which come after these.
    void add(const EmptyInputs& later);
};

/// One warning, if there are such inputs.
void warn_of_empty(const EmptyInputs& empty, const std::vector<std::string>& inputs);

/// Reads the records of a range of inputs in order, in chunks of about 256 KiB.
class CorpusReader {
public:
    /// `workers`: the threads that use the records.
    CorpusReader(const CorpusOptions& options, const InputRange& range, std::size_t workers = 1)
        : options_(options), range_(range), workers_(workers), file_(range.begin.input) {}
    /// Returns false at the end.
    bool next(Chunk& chunk);
    /// The inputs read so far, in whole, that hold no document.
    const EmptyInputs& empty() const { return empty_; }

private:
    void open();
    bool is_whole() const;

    const CorpusOptions& options_;
    InputRange range_;
    std::size_t workers_;
    std::size_t file_;
    std::unique_ptr<RecordSource> reader_;
    bool found_ = false;  ///< a record of this file
    EmptyInputs empty_;
};

}  // namespace gptrain
