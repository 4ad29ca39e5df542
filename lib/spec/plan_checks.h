// How a plan rejects contradictions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace gptrain {

void require(bool condition, const auto&... parts) {
    if (!condition) fail(ExitCode::usage, parts...);
}

/// Prefixes a message with the location of its key. For a `--set` option the key is not repeated.
std::string located(const std::string& location, std::string_view message);

/// Error (usage) unless a is a multiple of b. The message suggests the nearest valid values of a.
void require_multiple(std::string_view a_key, std::int64_t a, std::string_view b_key,
                      std::int64_t b);

}  // namespace gptrain
