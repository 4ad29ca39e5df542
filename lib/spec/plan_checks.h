// How a plan rejects contradictions.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace gptrain {

template <class... Parts>
void require(bool condition, const Parts&... parts) {
    if (!condition) fail(ExitCode::usage, parts...);
}

/// Error (usage) unless a is a multiple of b. The message suggests the nearest valid values of a.
void require_multiple(std::string_view a_key, std::int64_t a, std::string_view b_key,
                      std::int64_t b);

}  // namespace gptrain
