// What gpt-preprocess does, one function a subcommand. Faults are Errors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "corpus.h"
#include "text/train_tokenizer.h"

namespace gptrain {

struct EncodeOptions {
    CorpusOptions corpus;
    std::string tokenizer;
    std::string output_prefix;
    bool append_eod = false;
    std::int64_t workers = 0;  ///< 0: the machine's cores
};

/// Encodes the corpus into OUTPUT-PREFIX_KEY_document.bin and .idx.
void encode_corpus(const EncodeOptions& options);

struct TrainTokenizerOptions {
    CorpusOptions corpus;
    TokenizerTraining training;
    std::string model_prefix;
};

/// Trains MODEL-PREFIX.model on the corpus.
void train_tokenizer_command(const TrainTokenizerOptions& options);

struct MergeOptions {
    std::vector<std::string> inputs;  ///< prefixes of token files
    std::string output_prefix;
};

/// Joins token files of one type of id, in the order given.
void merge_token_files(const MergeOptions& options);

struct InspectOptions {
    std::string prefix;
    std::string tokenizer;      ///< empty: ids are shown as numbers
    std::int64_t document = 0;  ///< the sample
    std::int64_t sample_tokens = 64;
};

/// Prints counts, a histogram of lengths, and the start of one document.
void inspect_token_files(const InspectOptions& options);

}  // namespace gptrain
