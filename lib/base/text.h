// Conversion between text and values, independent of the locale.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gptrain {

/// Appends one value: text unchanged, numbers in the shortest form that reads back the same.
inline void append(std::string& out, std::string_view part) {
    out += part;
}
void append(std::string& out, std::same_as<char> auto part) {
    out += part;
}
void append(std::string& out, std::same_as<bool> auto part) {
    out += part ? "true" : "false";
}
template <class Number>
requires((std::integral<Number> && !std::same_as<Number, char> && !std::same_as<Number, bool>) ||
         std::floating_point<Number>) void append(std::string& out, Number part) {
    char digits[64];
    const auto end = std::to_chars(digits, digits + sizeof digits, part).ptr;
    out.append(digits, end);
}

/// Concatenates the parts.
std::string text(const auto&... parts) {
    std::string out;
    (append(out, parts), ...);
    return out;
}

/// Parses all of `word` as a number; nothing otherwise (no "+", no spaces, no locale, and only
/// finite floating-point values).
std::optional<std::int64_t> parse_int(std::string_view word);
std::optional<double> parse_double(std::string_view word);

/// Parses a byte count with unit, "80GB" or "1.5 GiB". Units are MB, GB, TB (powers of 1000) and
/// MiB, GiB, TiB (powers of 1024). Empty for other units and for values that are not positive.
std::optional<std::int64_t> parse_bytes(std::string_view word);

/// "12.3%": the share of `part` in `whole`; 0% of nothing.
std::string percent(std::int64_t part, std::int64_t whole);

/// The value with a fixed number of digits after the point.
std::string fixed(double value, int digits);

/// The value with this number of significant digits, without zeros at the end: "1.235", "6e-04".
std::string significant(double value, int digits);

/// "6.00e-04": with a fixed number of digits after the point.
std::string scientific(double value, int digits);

/// 124439808 as "124,439,808".
std::string grouped(std::int64_t value);

/// "1 step", "1,000 steps".
std::string counted(std::int64_t count, std::string_view word);

/// A large number with three digits and a unit prefix, to be followed by a word: "860 M", "1.25 T".
std::string human_count(double value);

/// A byte count for people: "512 B", "1.50 GiB".
std::string human_bytes(std::int64_t bytes);

/// Seconds for people: "42 s", "3 min 05 s", "2 h 07 min", "12 days".
std::string human_time(double seconds);

/// The system's message for an `errno` value.
std::string error_text(int error_number);

/// The candidate with the smallest edit distance to `word`; nothing if none is near (distance at
/// most a third of the word's length plus one).
std::optional<std::string> nearest(std::string_view word, const auto& candidates);

/// Levenshtein distance of two words.
std::size_t edit_distance(std::string_view a, std::string_view b);

std::optional<std::string> nearest(std::string_view word, const auto& candidates) {
    std::optional<std::string> best;
    std::size_t best_distance = word.size() / 3 + 2;
    for (const auto& candidate : candidates) {
        const std::size_t distance = edit_distance(word, candidate);
        if (distance < best_distance) {
            best = std::string(candidate);
            best_distance = distance;
        }
    }
    return best;
}

}  // namespace gptrain
