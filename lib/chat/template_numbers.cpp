#include "chat/template_numbers.h"

#include <charconv>
#include <cmath>
#include <string>

#include "chat/template_strings.h"

namespace gptrain {
namespace {

using Kind = TemplateValue::Kind;

TemplateValue whole_power(const TemplateRun& run, std::int64_t base, std::int64_t exponent) {
    std::int64_t result = 1;
    // A base of 0, 1 or -1 needs no more than the parity of the exponent.
    const std::int64_t steps =
        base >= -1 && base <= 1 && exponent > 2 ? 2 - exponent % 2 : exponent;
    for (std::int64_t i = 0; i < steps; ++i)
        if (__builtin_mul_overflow(result, base, &result)) run.fail("a number that is too large");
    return integer_value(result);
}

TemplateValue whole_arithmetic(const TemplateRun& run, std::string_view name, std::int64_t a,
                               std::int64_t b) {
    std::int64_t result = 0;
    bool fits = true;
    if (name == "+") {
        fits = !__builtin_add_overflow(a, b, &result);
    } else if (name == "-") {
        fits = !__builtin_sub_overflow(a, b, &result);
    } else if (name == "*") {
        fits = !__builtin_mul_overflow(a, b, &result);
    } else if (name == "**") {
        return whole_power(run, a, b);
    } else if (b == 0) {
        run.fail("a division by 0");
    } else if (b == -1) {
        fits = !__builtin_sub_overflow(std::int64_t{0}, a, &result);
        if (name == "%") result = 0;
    } else {
        // Rounded down, as Python does.
        const bool down = a % b != 0 && (a < 0) != (b < 0);
        result = name == "%" ? a % b + (down ? b : 0) : a / b - (down ? 1 : 0);
    }
    if (!fits && !(name == "%" && b == -1)) run.fail("a number that is too large");
    return integer_value(result);
}

/// Python's % of real numbers, which has the sign of b.
double remainder_of(double a, double b) {
    const double rest = std::fmod(a, b);
    if (rest == 0) return std::copysign(0.0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}

/// Python's // of real numbers.
double quotient_of(double a, double b) {
    const double quotient = (a - remainder_of(a, b)) / b;
    if (quotient == 0) return std::copysign(0.0, a / b);
    const double whole = std::floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

TemplateValue real_arithmetic(const TemplateRun& run, std::string_view name, double a, double b) {
    if (name == "+") return real_value(a + b);
    if (name == "-") return real_value(a - b);
    if (name == "*") return real_value(a * b);
    if (name == "**") {
        const double power = std::pow(a, b);
        if (!std::isfinite(power)) run.fail("a power that is too large, or no real number");
        return real_value(power);
    }
    if (b == 0) run.fail("a division by 0");
    if (name == "/") return real_value(a / b);
    return real_value(name == "%" ? remainder_of(a, b) : quotient_of(a, b));
}

TemplateValue truncated(const TemplateRun& run, double value) {
    constexpr double limit = 9223372036854775808.0;  // 2^63
    if (!(value >= -limit && value < limit)) run.fail("a number that is too large");
    return integer_value(static_cast<std::int64_t>(value));
}

/// The text as a number without what Python allows around it.
std::string_view bare_number(std::string_view text) {
    text = strip_text(text, "", StripSides::both);
    const bool plus = text.starts_with('+') && !text.starts_with("+-");
    return text.substr(plus ? 1 : 0);
}

}  // namespace

TemplateValue arithmetic(const TemplateRun& run, std::string_view name, const TemplateValue& a,
                         const TemplateValue& b) {
    const bool whole = a.is_whole() && b.is_whole() && name != "/";
    if (whole && !(name == "**" && b.number < 0))
        return whole_arithmetic(run, name, a.number, b.number);
    return real_arithmetic(run, name, a.as_real(), b.as_real());
}

std::optional<double> real_number_of(const TemplateRun& run, const TemplateValue& value) {
    if (value.is(Kind::undefined)) run.fail("'", *value.text, "' is undefined");
    if (value.is_number()) return value.as_real();
    if (!value.is_string()) return std::nullopt;
    return parse_double(bare_number(value.string()));
}

std::optional<TemplateValue> whole_number_of(const TemplateRun& run, const TemplateValue& value) {
    if (value.is_whole()) return integer_value(value.number);
    if (value.is_string())
        if (const auto whole = parse_int(bare_number(value.string()))) return integer_value(*whole);
    const std::optional<double> real = real_number_of(run, value);
    if (!real || std::isnan(*real)) return std::nullopt;
    return truncated(run, *real);
}

TemplateValue rounded(const TemplateRun& run, const TemplateValue& value, std::int64_t digits,
                      std::string_view method) {
    constexpr std::int64_t most_digits = 300;
    if (!value.is_number()) run.fail("round of ", kind_name(value));
    if (digits < 0 || digits > most_digits)
        run.fail("round to ", digits, " digits is not supported; use 0 to ", most_digits);
    const double real = value.as_real();
    if (method != "common") {
        if (method != "ceil" && method != "floor")
            run.fail("round needs the method common, ceil or floor");
        const double scale = std::pow(10.0, static_cast<double>(digits));
        const double scaled = real * scale;
        return real_value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
    }
    if (value.is_whole()) return integer_value(value.number);
    if (!std::isfinite(real)) return value;
    // The nearest number of so many digits to the exact value, as in Python.
    char text[1024];
    const auto end = std::to_chars(text, text + sizeof text, real, std::chars_format::fixed,
                                   static_cast<int>(digits))
                         .ptr;
    return real_value(parse_double({text, end}).value());
}

}  // namespace gptrain
