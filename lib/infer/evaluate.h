// Loss of a trained model on given tokens.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "infer/inference.h"
#include "text/corpus_folder.h"

namespace gptrain {

/// The data to evaluate on.
struct EvaluationData {
    /// The prefix of a token data set (.bin and .idx, found by token_prefix unless a text has this
    /// name), or else a file for the run's tokenizer: Parquet or JSON lines, recognised by
    /// name (named_parquet, named_json_lines), or plain text as one document, text optionally
    /// compressed (gzip, zstd); or a folder of such files (corpus_in). All documents are joined as
    /// by gpt-preprocess without --append-eod. With a loss mask only learned tokens count.
    std::filesystem::path path;
    std::filesystem::path tokenizer;      ///< given by the user, or empty: its files are no texts
    FolderChoice folder;                  ///< the files of a folder to read
    std::optional<std::string> json_key;  ///< of the text in rows or lines; not given: "text"
};

struct EvaluationResult {
    double loss = 0;          ///< mean over tokens, in nats
    double perplexity = 0;    ///< exp(loss)
    std::int64_t tokens = 0;  ///< tokens that count in the loss
};

/// Computes the loss over every token of the data, in order, in windows of the run's seq_length, or
/// of the text's length if that is shorter. With objective mlm the loss is that of the tokens that
/// the masks choose, which are always the same. All ranks get the result. Calls `progress` with the
/// batches done and their total.
EvaluationResult evaluate(const InferenceRun& run, const EvaluationData& data,
                          const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace gptrain
