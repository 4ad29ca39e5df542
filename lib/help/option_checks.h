// Checks of the values of options. An error quotes the value and lists what it may be.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>

namespace gptrain {

/// Accepts whole numbers from low to high, in decimal digits. The help shows the range.
CLI::Validator whole_number(std::int64_t low, std::int64_t high);

/// Accepts numbers from low to high; rejects NaN.
CLI::Validator number_between(double low, double high);

/// Accepts what whole_number does, also as "300M", "20B", "1.5T" or "20e9". As a transform, it
/// turns the word into digits.
CLI::Validator count_between(std::int64_t low, std::int64_t high);

/// Accepts what number_between does, also with the unit: "0.5h". As a transform, it removes that.
CLI::Validator hours_between(double low, double high);

/// The bytes of a size such as "80GB". Error (usage) that names `option` and gives `example` if it
/// is not one.
std::int64_t parse_size(std::string_view option, const std::string& word, std::string_view example);

}  // namespace gptrain
