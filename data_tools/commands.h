// The commands of gpt-preprocess, one function per subcommand. Failures throw an Error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chat/chat_lines.h"
#include "comm/mpi_session.h"
#include "corpus.h"
#include "tokenizer/train_tokenizer.h"

namespace gptrain {

struct EncodeOptions {
    CorpusOptions corpus;
    std::string tokenizer;
    std::string output_prefix;
    bool append_eod = false;
    std::int64_t workers = 0;  ///< of each rank; 0: all cores of the machine, shared by its ranks
    /// Set by `gpt-preprocess chat`: the corpus is JSON lines with conversations.
    std::optional<ChatLineOptions> chat;
};

/// Encodes the corpus into OUTPUT-PREFIX_KEY_document.bin and .idx, with `chat` also .mask
/// and .chat_template.jinja. All ranks call it: each encodes some of the files, and rank 0 joins
/// their tokens in the order of the files.
void encode_corpus(const EncodeOptions& options, const MpiSession& ranks);

struct TrainTokenizerOptions {
    CorpusOptions corpus;
    TokenizerTraining training;
    std::string model_prefix;
};

/// Trains MODEL-PREFIX.json or, of sentencepiece, MODEL-PREFIX.model on the corpus.
void train_tokenizer_files(const TrainTokenizerOptions& options);

struct MergeOptions {
    std::vector<std::string> inputs;  ///< prefixes of token files
    std::string output_prefix;
};

/// Joins token files with the same id type, in the given order.
void merge_token_files(const MergeOptions& options);

struct ImportOptions {
    std::vector<std::string> inputs;  ///< files that follow each other: a document may go on
    std::string tokenizer;            ///< that made them
    std::string output_prefix;
    std::optional<int> raw_bytes;  ///< of an id in files without a header
};

/// Converts token files of other trainers (foreign_tokens.h).
void import_token_files(const ImportOptions& options);

struct InspectOptions {
    std::string prefix;
    std::string tokenizer;      ///< empty: print ids as numbers
    std::int64_t document = 0;  ///< the document to print
    std::int64_t sample_tokens = 64;
};

/// Prints counts, a histogram of lengths, and the start of one document.
void inspect_token_files(const InspectOptions& options);

}  // namespace gptrain
