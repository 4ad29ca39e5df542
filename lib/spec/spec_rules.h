// Rules for the values of a run spec. Each rule checks a value and describes what is valid ("an
// integer from 1 to 256").
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "spec/spec_words.h"

namespace gptrain {

/// The words as a choice: "a, b or c".
inline std::string choice_of(const std::vector<std::string_view>& words) {
    std::string out;
    for (std::size_t i = 0; i < words.size(); ++i) {
        out += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
        out += words[i];
    }
    return out;
}

/// Any value of the type.
struct Any {
    bool accepts(const auto&) const { return true; }
};

struct IntRange {
    std::int64_t low;
    std::int64_t high;
    bool accepts(std::int64_t value) const { return value >= low && value <= high; }
    std::string description() const { return text("an integer from ", low, " to ", high); }
};

/// From low to high, including the ends unless `ends` excludes one. All real numbers of a spec are
/// within the range of fp32.
struct RealRange {
    enum class Ends { both, low_only, high_only };
    double low;
    double high = 1.0e30;
    Ends ends = Ends::both;
    bool accepts(double value) const {
        return (ends == Ends::high_only ? value > low : value >= low) &&
               (ends == Ends::low_only ? value < high : value <= high);
    }
    std::string description() const {
        return text("a number ", ends == Ends::high_only ? "above " : "from ", low,
                    ends == Ends::low_only ? " up to but not including " : " to ", high);
    }
};

/// A name, such as the value of `name`.
struct Label {
    bool accepts(const std::string& value) const { return !value.empty() && value.size() <= 200; }
    std::string description() const { return "text of 1 to 200 bytes"; }
};

/// Shares of training, validation and test data in Megatron's format: "969,30,1".
struct Split {
    bool accepts(std::string_view value) const {
        double sum = 0;
        int parts = 0;
        for (std::size_t start = 0; start <= value.size(); ++parts) {
            const std::size_t end = std::min(value.find(',', start), value.size());
            const std::string_view part = value.substr(start, end - start);
            const auto share = parse_double(part);
            if (part.find_first_not_of("0123456789.") != part.npos || !share) return false;
            sum += *share;
            start = end + 1;
        }
        return parts <= 3 && sum > 0 && sum <= 1.0e30;
    }
    std::string description() const {
        return "one to three comma-separated numbers with a sum above 0, such as "
               "\"969,30,1\"";
    }
};

/// One of several values, for a type that can hold more.
template <class T>
struct OneOf {
    std::vector<T> allowed;
    bool accepts(const T& value) const {
        return std::find(allowed.begin(), allowed.end(), value) != allowed.end();
    }
    std::string description() const { return choice_of({allowed.begin(), allowed.end()}); }
};

/// A list of low to high items, each of which must satisfy `item`.
template <class Item = Any>
struct ListOf {
    std::size_t low;
    std::size_t high;
    Item item = {};
    bool accepts(const auto& list) const { return list.size() >= low && list.size() <= high; }
    std::string description() const {
        if (low == high) return text("a list of ", low, " values");
        if (low == 0) return text("a list of at most ", high, " values");
        return text("a list of ", low, " to ", high, " values");
    }
};

}  // namespace gptrain
