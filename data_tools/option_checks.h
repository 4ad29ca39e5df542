// Validators of options without a description: the help's type names already list the values.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gptrain {

inline CLI::Validator one_of(std::vector<std::string> values) {
    return CLI::IsMember(std::move(values)).description("");
}
inline CLI::Validator in_range(std::int64_t low, std::int64_t high) {
    return CLI::Range(low, high).description("");
}

}  // namespace gptrain
