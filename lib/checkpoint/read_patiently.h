// Reads that a file server may fail for a moment.
#pragma once

#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/log.h"

namespace gptrain {

/// Calls `read`, again if it throws a Failure because of I/O: a file server that was restarted or
/// is overloaded soon answers. `warns`: each failure that is followed by another try is a warning.
template <class Failure>
auto read_patiently(bool warns, const auto& read) {
    constexpr int attempts = 3;
    constexpr std::chrono::milliseconds pause(300);
    for (int attempt = 1; attempt < attempts; ++attempt) {
        try {
            return read();
        } catch (const Failure& failure) {
            if (failure.code() != ExitCode::io) throw;
            if (warns) warn(failure.what(), "; trying again");
        }
        std::this_thread::sleep_for(attempt * pause);
    }
    return read();
}

}  // namespace gptrain
