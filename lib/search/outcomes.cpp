#include "search/outcomes.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace gptrain {
namespace {

template <class Enum>
std::string word_of(std::int64_t number) {
    return std::string(name_of(static_cast<Enum>(number)));
}

std::string plain(std::int64_t number) {
    return text(number);
}

struct ReportedKey {
    std::string_view name;
    std::int64_t (*number)(const Choices& choices);
    std::string (*word)(std::int64_t number);
};

constexpr std::array<ReportedKey, reported_keys> all_reported = {{
    {"tensor", [](const Choices& c) { return c.parallel.tensor; }, plain},
    {"pipeline", [](const Choices& c) { return c.parallel.pipeline; }, plain},
    {"context", [](const Choices& c) { return c.parallel.context; }, plain},
    {"expert", [](const Choices& c) { return c.parallel.expert; }, plain},
    {"overlap_tensor",
     [](const Choices& c) { return static_cast<std::int64_t>(c.parallel.overlap_tensor); },
     word_of<OverlapTensor>},
    {"micro_batch_size", [](const Choices& c) { return c.micro_batch_size; }, plain},
    {"recompute", [](const Choices& c) { return static_cast<std::int64_t>(c.recompute); },
     word_of<Recompute>},
    {"schedule", [](const Choices& c) { return static_cast<std::int64_t>(c.parallel.schedule); },
     word_of<ScheduleKind>},
    {"virtual_stages", [](const Choices& c) { return c.parallel.virtual_stages; }, plain},
}};

}  // namespace

ReportedValues reported_values(const Choices& choices) {
    ReportedValues values{};
    for (std::size_t key = 0; key < reported_keys; ++key)
        values[key] = all_reported[key].number(choices);
    return values;
}

ValueOutcome& Outcomes::at(const Value& value) {
    const auto found = std::find_if(outcomes_.begin(), outcomes_.end(),
                                    [&](const auto& outcome) { return outcome.first == value; });
    if (found != outcomes_.end()) return found->second;
    return outcomes_.emplace_back(value, ValueOutcome{}).second;
}

void Outcomes::for_each(const Choices& choices, const auto& change) {
    const ReportedValues values = reported_values(choices);
    for (std::size_t key = 0; key < reported_keys; ++key)
        change(at({key, values[key]}));
}

void Outcomes::refused(const Choices& choices, const std::string& rule) {
    for_each(choices, [&](ValueOutcome& outcome) {
        if (outcome.rule.empty()) outcome.rule = rule;
    });
}

void Outcomes::too_large(const Choices& choices, double bytes) {
    for_each(choices, [&](ValueOutcome& outcome) {
        outcome.allowed = true;
        outcome.least_bytes = std::min(outcome.least_bytes, bytes);
    });
}

void Outcomes::bounded(const Choices& choices, double bound) {
    for_each(choices, [&](ValueOutcome& outcome) {
        outcome.allowed = outcome.fits = true;
        outcome.bound = std::min(outcome.bound, bound);
    });
}

void Outcomes::among_best(const Choices& choices) {
    for_each(choices, [](ValueOutcome& outcome) { outcome.among_best = true; });
}

std::vector<Outcomes::Value> Outcomes::left_out() const {
    std::vector<Value> values;
    for (const auto& [value, outcome] : outcomes_)
        if (outcome.fits && !outcome.among_best) values.push_back(value);
    return values;
}

std::vector<std::pair<KeyValue, ValueOutcome>> Outcomes::take() {
    std::vector<std::pair<KeyValue, ValueOutcome>> named;
    for (auto& [value, outcome] : outcomes_) {
        const ReportedKey& key = all_reported[value.key];
        named.push_back({{std::string(key.name), key.word(value.number)}, std::move(outcome)});
    }
    return named;
}

}  // namespace gptrain
