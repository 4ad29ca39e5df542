#include "tasks/task_metrics.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "chat/template_strings.h"
#include "tasks/task_requests.h"

namespace gptrain {
namespace {

double log_likelihood(const TokenScores& scores) {
    return std::accumulate(
        scores.begin(), scores.end(), 0.0,
        [](double sum, const TokenScore& score) { return sum + score.log_probability; });
}

bool all_likeliest(const TokenScores& scores) {
    return std::all_of(scores.begin(), scores.end(),
                       [](const TokenScore& score) { return score.likeliest; });
}

/// The index of the largest of values / lengths, the first of equal ones.
std::int64_t best_of(std::span<const double> values, const auto& length) {
    std::vector<double> divided;
    for (std::size_t i = 0; i < values.size(); ++i)
        divided.push_back(values[i] / static_cast<double>(length(i)));
    return std::max_element(divided.begin(), divided.end()) - divided.begin();
}

ItemResult judge_choices(const TaskItem& item, std::span<const TokenScores> scores) {
    std::vector<double> sums;
    for (const TokenScores& choice : scores)
        sums.push_back(log_likelihood(choice));
    ItemResult result;
    const auto judge = [&](const auto& length) {
        const std::int64_t best = best_of(sums, length);
        result.shares.push_back({best == item.answer ? 1.0 : 0.0});
        return best;
    };
    const std::int64_t chosen = judge([](std::size_t) { return 1; });
    if (item.choices.size() > 1) {
        judge([&](std::size_t i) { return count_characters(item.choices[i]); });
        judge([&](std::size_t i) { return item.choices[i].size(); });
    }
    result.details = {{"log_likelihoods", sums}, {"chosen", chosen}, {"answer", item.answer}};
    return result;
}

ItemResult judge_word(const TokenScores& scores) {
    const double sum = log_likelihood(scores);
    const bool whole = all_likeliest(scores);
    return {.shares = {{whole ? 1.0 : 0.0}, {scores.back().likeliest ? 1.0 : 0.0}, {sum}},
            .details = {{"log_likelihood", sum}, {"likeliest", whole}}};
}

/// As Python's re.split(r"\s+", text) counts them.
std::int64_t count_words(std::string_view text) {
    std::int64_t words = 1;
    bool in_space = false;
    for (const std::string_view character : characters_of(text)) {
        const bool space = strip_text(character, "", StripSides::both).empty();
        words += space && !in_space ? 1 : 0;
        in_space = space;
    }
    return words;
}

ItemResult judge_text_likelihood(const TaskItem& item, std::span<const TokenScores> windows) {
    double sum = 0;
    std::size_t tokens = 0;
    for (const TokenScores& window : windows) {
        sum += log_likelihood(window);
        tokens += window.size();
    }
    const std::string_view stripped = strip_text(item.original, "", StripSides::both);
    const auto blanks = std::count(stripped.begin(), stripped.end(), ' ');
    const auto words = static_cast<double>(count_words(item.original));
    const auto bytes = static_cast<double>(item.original.size());
    const double first = windows.front().front().log_probability;
    return {.shares = {{sum, words},
                       {sum, bytes},
                       {sum, bytes},
                       {sum, static_cast<double>(tokens)},
                       {sum - first, static_cast<double>(blanks)}},
            .details = {
                {"log_likelihood", sum}, {"words", words}, {"bytes", bytes}, {"tokens", tokens}}};
}

bool is_ascii_punctuation(char c) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}

/// The last number of a text, without commas between its digits; empty if it has none.
std::string last_number(std::string_view text) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    std::size_t end = text.size();
    while (end > 0 && !is_digit(text[end - 1]))
        --end;
    std::size_t begin = end;
    while (begin > 0 &&
           (is_digit(text[begin - 1]) || text[begin - 1] == ',' || text[begin - 1] == '.'))
        --begin;
    while (begin < end && !is_digit(text[begin]))
        ++begin;
    std::string number(text.substr(begin, end - begin));
    std::erase(number, ',');
    const bool negative = begin > 0 && text[begin - 1] == '-';
    const auto value = parse_double(number);
    return value ? gptrain::text(negative ? -*value : *value) : number;
}

std::string comparable(std::string text, const TaskSpec& spec) {
    if (spec.ignore_punctuation) std::erase_if(text, is_ascii_punctuation);
    if (spec.ignore_case) {
        for (char& c : text)
            if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 0x20);
    }
    switch (spec.match) {
        case AnswerMatch::exact: break;
        case AnswerMatch::stripped: return std::string(strip_text(text, "", StripSides::both));
        case AnswerMatch::number: return last_number(text);
    }
    return text;
}

/// A metric as a function of r = sum v / sum w.
Metric metric_of(std::string_view name, double r, double error) {
    const std::string own(name);
    if (name == "bits_per_byte") return {own, -r / std::numbers::ln2, error / std::numbers::ln2};
    if (!name.ends_with("perplexity")) return {own, r, error};
    return {own, std::exp(-r), std::exp(-r) * error};
}

}  // namespace

std::vector<std::string_view> metric_names(const TaskSpec& spec, const TaskItem& first) {
    switch (spec.kind) {
        case TaskKind::multiple_choice:
            if (first.choices.size() == 1) return {"acc"};
            return {"acc", "acc_norm", "acc_bytes"};
        case TaskKind::last_word: return {"acc", "last_token_acc", "perplexity"};
        case TaskKind::perplexity:
            return {"word_perplexity", "byte_perplexity", "bits_per_byte", "token_perplexity",
                    "adjusted_perplexity"};
        case TaskKind::exact_match: return {"exact_match"};
    }
    return {};
}

ItemResult judge_scores(const TaskSpec& spec, const TaskItem& item,
                        std::span<const TokenScores> scores) {
    switch (spec.kind) {
        case TaskKind::multiple_choice: return judge_choices(item, scores);
        case TaskKind::last_word: return judge_word(scores.front());
        case TaskKind::perplexity: return judge_text_likelihood(item, scores);
        case TaskKind::exact_match: break;
    }
    fail(ExitCode::bug, "a task of kind ", name_of(spec.kind), " has no scores");
}

ItemResult judge_text(const TaskSpec& spec, const TaskItem& item, const std::string& written) {
    const std::string answer = comparable(written, spec);
    const bool has_answer = spec.match != AnswerMatch::number || !answer.empty();
    const bool equal = has_answer && answer == comparable(item.target, spec);
    return {.shares = {{equal ? 1.0 : 0.0}},
            .details = {{"written", written}, {"target", item.target}}};
}

std::vector<Metric> summarize(std::span<const std::string_view> names,
                              std::span<const ItemResult> results) {
    const auto n = static_cast<double>(results.size());
    std::vector<Metric> metrics;
    for (std::size_t i = 0; i < names.size(); ++i) {
        MetricShare sum = {0, 0};
        for (const ItemResult& result : results) {
            sum.value += result.shares.at(i).value;
            sum.weight += result.shares.at(i).weight;
        }
        // As Megatron counts words, a text may have none.
        if (sum.weight == 0) continue;
        const double r = sum.value / sum.weight;
        double squares = 0;
        for (const ItemResult& result : results) {
            const MetricShare& share = result.shares.at(i);
            squares += std::pow(share.value - r * share.weight, 2);
        }
        metrics.push_back(metric_of(names[i], r, std::sqrt(n / (n - 1) * squares) / sum.weight));
    }
    return metrics;
}

}  // namespace gptrain
