// Turns a model's answers to a task's questions into the task's results.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tasks/score_request.h"
#include "tasks/task_items.h"

namespace gptrain {

/// A document's contribution to a metric. The metric is a function of (sum of values) / (sum of
/// weights).
struct MetricShare {
    double value = 0;
    double weight = 1;
};

/// One document's share of each metric, and the model's answers for --details.
struct ItemResult {
    std::vector<MetricShare> shares;  ///< in the order of metric_names
    Json details;                     ///< an object
};

/// The metrics of each kind of task:
///
/// multiple_choice: acc, the likeliest choice is the right one; acc_norm and acc_bytes, the same
/// with log-likelihoods divided by the characters and by the bytes of the choice. With several
/// prompts only acc.
///
/// last_word: acc, all tokens of the last word are the likeliest (LAMBADA as in
/// lm-evaluation-harness, and "strict" in Megatron); last_token_acc, its last token is
/// ("non-strict" in Megatron); perplexity = exp(-mean log-likelihood of the word).
///
/// perplexity: exp(-sum of log-likelihoods / n), where n counts words (word_perplexity), bytes
/// (byte_perplexity) and tokens (token_perplexity); bits_per_byte. Words and bytes are those of the
/// text before it was cleaned. adjusted_perplexity is Megatron's: without the first token, and n is
/// the number of words between spaces less one.
///
/// exact_match: exact_match, what the model wrote is the target.
std::vector<std::string_view> metric_names(const TaskSpec& spec, const TaskItem& first);

/// Judges the scores of an item's requests.
ItemResult judge_scores(const TaskSpec& spec, const TaskItem& item,
                        std::span<const TokenScores> scores);
/// Judges what the model wrote.
ItemResult judge_text(const TaskSpec& spec, const TaskItem& item, const std::string& written);

struct Metric {
    std::string name;
    double value = 0;
    /// With r = sum v / sum w over n documents, sqrt(n / (n - 1) sum (v - r w)^2) / sum w, which
    /// for a mean is the sample's standard deviation / sqrt(n); for a function of r, this times the
    /// derivative. NaN for one document.
    double standard_error = 0;
};

/// The metrics of all documents, without those of which all weights are 0. Each of `results` has a
/// share of each of `names`.
std::vector<Metric> summarize(std::span<const std::string_view> names,
                              std::span<const ItemResult> results);

}  // namespace gptrain
