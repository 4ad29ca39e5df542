// Signals that end the process at once, without leaving partial files.
#pragma once

#include <csignal>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"

namespace gptrain {

/// sigaction for a handler, which then runs on a separate stack if the signal arrives on the thread
/// that called this first, the main thread. Code that oneDNN generates for AVX2 has the stack
/// pointer in the heap while it multiplies; a handler's frame would overwrite what is there.
void handle_signal(int signal, struct sigaction action, struct sigaction* previous = nullptr);

/// How a signal ends the process: it writes one line to stderr, `before`, the signal's name,
/// `after`. Both texts must live as long as the process. A silenced process (log.h) writes nothing.
struct SignalEnd {
    std::string_view before;
    std::string_view after;
    std::optional<ExitCode> code;  ///< none: the process dies by the signal itself
};

/// From now on each of `signals` removes the temporary files (temporary_names.h) and ends the
/// process, on whichever thread it arrives and whatever that thread does. The last call wins.
void end_on_signals(std::span<const int> signals, const SignalEnd& end);
/// The same for SIGHUP, SIGINT, SIGTERM and SIGUSR1, except those that are ignored, as under nohup.
void end_on_signals(const SignalEnd& end);

/// From now on a bus error in a mapped file, which lost bytes or whose disk failed, removes the
/// temporary files and ends the process with exit code `io` and one line to stderr, `before` and
/// what happened. `before` must live as long as the process. Other bus errors remain crashes.
void end_on_lost_mapping(std::string_view before);

/// True if the process ignores the signal, as SIGHUP under nohup.
bool is_ignored(int signal);

/// "SIGTERM"; empty for signals that gptrain does not handle.
std::string_view signal_name(int signal);

/// Writes the parts to stderr as one line, in one call; safe in signal handlers.
void write_from_handler(std::string_view before, std::string_view name, std::string_view after);

/// Defers the signals of `end_on_signals` during its lifetime. For a few quick calls that belong
/// together. May be nested.
class DeferSignals {
public:
    DeferSignals();
    ~DeferSignals();
    DeferSignals(const DeferSignals&) = delete;
    DeferSignals& operator=(const DeferSignals&) = delete;

private:
    sigset_t before_;
};

/// During its lifetime the first SIGINT is only recorded; the second ends the process as before.
/// Only one object may exist at a time.
class CatchInterrupt {
public:
    CatchInterrupt();
    ~CatchInterrupt();
    CatchInterrupt(const CatchInterrupt&) = delete;
    CatchInterrupt& operator=(const CatchInterrupt&) = delete;

    bool caught() const;

private:
    struct sigaction before_ {};
};

}  // namespace gptrain
