// The base of the program's exceptions, and its exit codes. Every fault that a user can cause or
// fix becomes one `Error`; `main` prints it as one line on stderr and exits with its code.
#pragma once

#include <stdexcept>
#include <string>

#include "base/text.h"

namespace gptrain {

/// Exit codes. Scripts depend on these numbers.
enum class ExitCode : int {
    done = 0,
    bug = 1,        ///< a fault in the program
    usage = 2,      ///< bad command line or run spec, or a missing device or too little memory
    bad_input = 3,  ///< a file with invalid contents
    numerical = 4,  ///< training diverged
    io = 5,         ///< disk full, lost file, failed write
    hang = 6,       ///< a hang, a lost rank or failed hardware: start the run again
    requeue = 75,   ///< stopped on request, and saved if a step was done: start the run again
};

/// A fault and the exit code it leads to. `what()` is one line that names the file, line, key, rank
/// or tensor at fault and the remedy.
class Error : public std::runtime_error {
public:
    Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
    ExitCode code() const { return code_; }

private:
    ExitCode code_;
};

/// Throws an `Error` whose message is the concatenated parts.
[[noreturn]] void fail(ExitCode code, const auto&... parts) {
    throw Error(code, text(parts...));
}

/// `fail` for a failed system call: appends errno's message. Code: io.
[[noreturn]] void fail_errno(int error_number, const auto&... parts) {
    throw Error(ExitCode::io, text(parts..., ": ", error_text(error_number)));
}

}  // namespace gptrain

/// Throws a bug `Error` with the source location if the condition is false. For the program's own
/// invariants; report user mistakes with `fail` and a proper message.
#define GPTRAIN_CHECK(condition, ...)                                                      \
    do {                                                                                   \
        if (!(condition)) [[unlikely]]                                                     \
            ::gptrain::fail(::gptrain::ExitCode::bug, "internal error at ", __FILE__, ":", \
                            __LINE__, ": " #condition ": " __VA_OPT__(, ) __VA_ARGS__);    \
    } while (false)
