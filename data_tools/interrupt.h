// SIGINT, SIGTERM and SIGHUP end a run in order: what is half done is removed on the way out.
#pragma once

#include <exception>

namespace gptrain {

/// Thrown by `check_interrupt`; `main` ends the process by the same signal.
class Interrupted : public std::exception {
public:
    explicit Interrupted(int signal) : signal_(signal) {}
    int signal() const { return signal_; }
    const char* what() const noexcept override { return "interrupted"; }

private:
    int signal_;
};

/// From now on the first signal of each kind is only noted; a second one ends the process at once.
void catch_interrupts();

/// Throws `Interrupted` if a signal has arrived.
void check_interrupt();

/// Ends the process by this signal, so that the shell sees why it ended.
[[noreturn]] void end_by_signal(int signal);

}  // namespace gptrain
