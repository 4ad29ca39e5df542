// The time of day.
#pragma once

#include <chrono>

namespace gptrain {

/// Seconds since 1970 began, in UTC.
inline double unix_seconds() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace gptrain
