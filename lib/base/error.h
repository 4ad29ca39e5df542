// The one exception of the program and its exit codes. Every fault that a user can cause or repair
// ends as one `Error`; `main` prints it as one line on stderr and returns its code.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/text.h"

namespace gptrain {

/// What the process returns. Scripts depend on these numbers.
enum class ExitCode : int {
    done = 0,
    bug = 1,        ///< a fault of the program or of the device
    usage = 2,      ///< command line, run spec, or a device or memory that is not there
    bad_input = 3,  ///< a file that does not hold what it should
    numerical = 4,  ///< the training diverged
    io = 5,         ///< disk full, lost file, failed write
    hang = 6,       ///< a hang or a lost rank
    requeue = 75,   ///< saved on a signal or time limit: start me again
};

/// A fault with the exit code that it leads to. `what()` is one line that names the file, line,
/// key, rank or tensor at fault and says what to do.
class Error : public std::runtime_error {
public:
    Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
    ExitCode code() const { return code_; }

private:
    ExitCode code_;
};

/// Throws an `Error` whose message is the parts written one after the other.
template <class... Parts>
[[noreturn]] void fail(ExitCode code, const Parts&... parts) {
    throw Error(code, text(parts...));
}

/// `fail` for a failed system call: appends what `errno` says. Code: io.
template <class... Parts>
[[noreturn]] void fail_errno(int error_number, const Parts&... parts) {
    throw Error(ExitCode::io, text(parts..., ": ", error_text(error_number)));
}

}  // namespace gptrain

/// Throws a bug `Error` naming the place if the condition does not hold. For what the program
/// itself guarantees; a user's mistake is reported by `fail` with its own words.
#define GPTRAIN_CHECK(condition, ...)                                                      \
    do {                                                                                   \
        if (!(condition)) [[unlikely]]                                                     \
            ::gptrain::fail(::gptrain::ExitCode::bug, "internal error at ", __FILE__, ":", \
                            __LINE__, ": " #condition ": " __VA_OPT__(, ) __VA_ARGS__);    \
    } while (false)
