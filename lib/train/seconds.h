// Elapsed time, for a run's accounts of its time.
#pragma once

#include <chrono>

namespace gptrain {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace gptrain
