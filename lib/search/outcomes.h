// The outcomes of all values of the keys that a search varies.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "search/choices.h"

namespace gptrain {

/// "tensor" and "16".
using KeyValue = std::pair<std::string, std::string>;

/// The outcome of the candidates with one value of a key.
struct ValueOutcome {
    std::string rule;  ///< why the spec's rules refuse it, if they refuse all
    bool allowed = false;
    double least_bytes = std::numeric_limits<double>::infinity();  ///< if none fits
    bool fits = false;
    /// Lower bound, in seconds per sample.
    double bound = std::numeric_limits<double>::infinity();
    bool among_best = false;
};

/// The keys whose values are reported.
constexpr std::size_t reported_keys = 9;
/// The candidate's value of each of them, as a number.
using ReportedValues = std::array<std::int64_t, reported_keys>;
ReportedValues reported_values(const Choices& choices);

/// The outcomes of all values that some candidate has.
class Outcomes {
public:
    void refused(const Choices& choices, const std::string& rule);
    void too_large(const Choices& choices, double bytes);
    /// The candidate fits, and takes at least `bound` seconds per sample.
    void bounded(const Choices& choices, double bound);
    void among_best(const Choices& choices);

    /// A value of a reported key.
    struct Value {
        std::size_t key;
        std::int64_t number;
        bool operator==(const Value&) const = default;
    };
    /// The values that fit and are not among the best.
    std::vector<Value> left_out() const;
    void set_bound(const Value& value, double bound) { at(value).bound = bound; }

    /// In the order in which the values first appeared.
    std::vector<std::pair<KeyValue, ValueOutcome>> take();

private:
    ValueOutcome& at(const Value& value);
    void for_each(const Choices& choices, const auto& change);

    std::vector<std::pair<Value, ValueOutcome>> outcomes_;
};

}  // namespace gptrain
