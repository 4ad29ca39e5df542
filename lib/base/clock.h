// The time of day, and elapsed time.
#pragma once

#include <chrono>
#include <string>

#include "base/text.h"

namespace gptrain {

/// Seconds since 1970 began, in UTC.
inline double unix_seconds() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

/// "2026-01-05".
inline std::string date_text(std::chrono::year_month_day day) {
    const auto month = static_cast<unsigned>(day.month());
    const auto of_month = static_cast<unsigned>(day.day());
    return text(static_cast<int>(day.year()), month < 10 ? "-0" : "-", month,
                of_month < 10 ? "-0" : "-", of_month);
}
/// The date in UTC.
inline std::string today() {
    return date_text(std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace gptrain
