#include "base/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>
#include <vector>

namespace gptrain {

std::optional<std::int64_t> parse_int(std::string_view word) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    return value;
}

std::optional<double> parse_double(std::string_view word) {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    if (!std::isfinite(value)) return std::nullopt;
    return value;
}

std::optional<std::int64_t> parse_bytes(std::string_view word) {
    struct Unit {
        std::string_view name;
        double bytes;
    };
    constexpr std::array<Unit, 6> units = {{{"MB", 1e6},
                                            {"GB", 1e9},
                                            {"TB", 1e12},
                                            {"MiB", 0x1p20},
                                            {"GiB", 0x1p30},
                                            {"TiB", 0x1p40}}};
    for (const Unit& unit : units) {
        if (!word.ends_with(unit.name)) continue;
        word.remove_suffix(unit.name.size());
        if (word.ends_with(' ')) word.remove_suffix(1);
        const double bytes = parse_double(word).value_or(0) * unit.bytes;
        if (bytes >= 1 && bytes < 0x1p62) return static_cast<std::int64_t>(bytes);
        return std::nullopt;
    }
    return std::nullopt;
}

namespace {

std::string formatted(double value, std::chars_format format, int precision) {
    if (std::isnan(value)) return "nan";
    std::array<char, 400> digits;  // the longest number has 309 digits before its point
    const auto end =
        std::to_chars(digits.data(), digits.data() + digits.size(), value, format, precision).ptr;
    return {digits.data(), end};
}

}  // namespace

std::string fixed(double value, int digits) {
    return formatted(value, std::chars_format::fixed, digits);
}

std::string significant(double value, int digits) {
    return formatted(value, std::chars_format::general, digits);
}

std::string scientific(double value, int digits) {
    return formatted(value, std::chars_format::scientific, digits);
}

std::string percent(std::int64_t part, std::int64_t whole) {
    const double share = whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
    return fixed(100 * share, 1) + "%";
}

std::string grouped(std::int64_t value) {
    std::string digits = text(value);
    const std::size_t first = value < 0 ? 1 : 0;
    for (std::size_t i = digits.size(); i > first + 3; i -= 3)
        digits.insert(i - 3, 1, ',');
    return digits;
}

std::string counted(std::int64_t count, std::string_view word) {
    return text(grouped(count), " ", word, count == 1 ? "" : "s");
}

std::string human_count(double value) {
    static constexpr std::array<std::string_view, 9> units = {" ",  " k", " M", " G", " T",
                                                              " P", " E", " Z", " Y"};
    std::size_t unit = 0;
    while (value >= 999.5 && unit + 1 < units.size()) {
        value /= 1000;
        ++unit;
    }
    const int digits = value < 9.995 ? 2 : (value < 99.95 ? 1 : 0);
    return text(fixed(value, digits), units[unit]);
}

std::string human_bytes(std::int64_t bytes) {
    static constexpr std::array<std::string_view, 6> units = {"KiB", "MiB", "GiB",
                                                              "TiB", "PiB", "EiB"};
    if (bytes > -1024 && bytes < 1024) return text(bytes, " B");
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    while (std::abs(value) >= 1024 && unit + 1 < units.size()) {
        value /= 1024;
        ++unit;
    }
    return text(fixed(value, 2), " ", units[unit]);
}

std::string human_time(double seconds) {
    const auto two_digits = [](std::int64_t n) { return text(n < 10 ? "0" : "", n); };
    const auto whole = static_cast<std::int64_t>(std::llround(seconds));
    if (whole < 60) return text(whole, " s");
    if (whole < 3600) return text(whole / 60, " min ", two_digits(whole % 60), " s");
    if (whole >= 360000) return text(whole / 86400, " days");
    return text(whole / 3600, " h ", two_digits(whole % 3600 / 60), " min");
}

std::string error_text(int error_number) {
    return std::generic_category().message(error_number);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j)
        row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t above = row[j];
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({above + 1, row[j - 1] + 1, replaced});
            diagonal = above;
        }
    }
    return row[b.size()];
}

}  // namespace gptrain
