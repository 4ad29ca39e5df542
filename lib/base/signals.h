// Signals that end the process: at once, and without leaving half a file behind.
#pragma once

#include <csignal>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"

namespace gptrain {

/// How a signal ends the process. One line is written to stderr: `before`, the signal's name,
/// `after`. Both texts live as long as the process; nothing is said by a process that was silenced
/// (log.h).
struct SignalEnd {
    std::string_view before;
    std::string_view after;
    std::optional<ExitCode> code;  ///< none: the process dies by the signal itself
};

/// From now on each of `signals` removes the temporary files (temporary_file.h) and ends the
/// process, on whatever thread it arrives and whatever that thread does. The last call counts.
void end_on_signals(std::span<const int> signals, const SignalEnd& end);
/// The same for SIGHUP, SIGINT, SIGTERM and SIGUSR1. Those that are ignored, as under nohup, stay
/// ignored.
void end_on_signals(const SignalEnd& end);

/// "SIGTERM"; empty for signals that gptrain does not handle.
std::string_view signal_name(int signal);

/// Writes the parts to stderr as one line, in one call; for handlers of signals.
void write_from_handler(std::string_view before, std::string_view name, std::string_view after);

/// While one lives, no signal of `end_on_signals` ends the process; one that arrives does so
/// afterwards. For a few quick calls that belong together. May be nested.
class SignalsHeld {
public:
    SignalsHeld();
    ~SignalsHeld();
    SignalsHeld(const SignalsHeld&) = delete;
    SignalsHeld& operator=(const SignalsHeld&) = delete;

private:
    sigset_t before_;
};

}  // namespace gptrain
