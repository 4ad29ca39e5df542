#include "help/option_checks.h"

#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace gptrain {

CLI::Validator whole_number(std::int64_t low, std::int64_t high) {
    const auto check = [=](const std::string& word) {
        const auto value = parse_int(word);
        if (value && *value >= low && *value <= high) return std::string();
        return text("'", word, "' is not a whole number from ", low, " to ", high);
    };
    return {check, text("INT in [", low, " - ", high, "]")};
}

CLI::Validator number_between(double low, double high) {
    const auto check = [=](const std::string& word) {
        const auto value = parse_double(word);
        if (value && *value >= low && *value <= high) return std::string();
        return text("'", word, "' is not a number from ", low, " to ", high);
    };
    return {check, ""};
}

namespace {

/// 2e10 for "20B" and "20e9".
std::optional<double> parse_count(std::string_view word) {
    for (const auto& [letters, exponent] : {std::pair("kK", "e3"), std::pair("mM", "e6"),
                                            std::pair("bB", "e9"), std::pair("tT", "e12")}) {
        if (word.find_last_of(letters) + 1 == word.size() && !word.empty())
            return parse_double(text(word.substr(0, word.size() - 1), exponent));
    }
    return parse_double(word);
}

}  // namespace

CLI::Validator count_between(std::int64_t low, std::int64_t high) {
    const auto check = [=](std::string& word) {
        const auto value = parse_count(word);
        const bool whole = value && *value >= static_cast<double>(low) &&
                           *value <= static_cast<double>(high) && *value == std::floor(*value);
        if (!whole) {
            return text("'", word, "' is not a whole number from ", low, " to ", high,
                        "; write it like 300M, 20B or 20e9");
        }
        word = text(static_cast<std::int64_t>(*value));
        return std::string();
    };
    return {check, ""};
}

CLI::Validator hours_between(double low, double high) {
    const auto check = [=](std::string& word) {
        std::string number = word;
        if (number.ends_with('h')) number.pop_back();
        const auto value = parse_double(number);
        if (!value || *value < low || *value > high)
            return text("'", word, "' is not a number of hours from ", low, " to ", high);
        word = number;
        return std::string();
    };
    return {check, ""};
}

std::int64_t parse_size(std::string_view option, const std::string& word,
                        std::string_view example) {
    const auto bytes = parse_bytes(word);
    if (!bytes) {
        fail(ExitCode::usage, option, ' ', word,
             ": give a number above 0 with its unit, one of MB, GB, TB, MiB, GiB and TiB, such as ",
             example);
    }
    return *bytes;
}

}  // namespace gptrain
