// How a plan refuses what does not go together.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace gptrain {

template <class... Parts>
void require(bool condition, const Parts&... parts) {
    if (!condition) fail(ExitCode::usage, parts...);
}

/// a must be a multiple of b; says which values near a would be.
void require_multiple(std::string_view a_key, std::int64_t a, std::string_view b_key,
                      std::int64_t b);

}  // namespace gptrain
