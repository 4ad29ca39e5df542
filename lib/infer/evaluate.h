// Loss of a trained model on any tokens.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "infer/inference.h"

namespace gptrain {

/// What to measure the loss on.
struct EvaluationData {
    /// The prefix of a token data set (.bin and .idx), else a file that the run's tokenizer reads:
    /// JSON lines by its name (named_json_lines), or plain text as one document; either as gzip
    /// data. The documents of JSON lines follow each other as gpt-preprocess writes them without
    /// --append-eod.
    std::filesystem::path path;
    std::optional<std::string> json_key;  ///< of the text in JSON lines; not given: "text"
};

struct EvaluationResult {
    double loss = 0;          ///< mean over tokens, in nats
    double perplexity = 0;    ///< exp(loss)
    std::int64_t tokens = 0;  ///< whose loss was counted
};

/// Loss over every token of the data, in order, in windows of the run's seq_length. All ranks get
/// it. `progress` is told batches done and in all.
EvaluationResult evaluate(const InferenceRun& run, const EvaluationData& data,
                          const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace gptrain
