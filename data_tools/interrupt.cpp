#include "interrupt.h"

#include <csignal>
#include <cstdlib>
#include <initializer_list>

namespace gptrain {
namespace {

// A signal handler can reach nothing else.
volatile std::sig_atomic_t arrived_signal = 0;

extern "C" void note_signal(int signal) {
    arrived_signal = signal;
}

}  // namespace

void catch_interrupts() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction action {};
        ::sigaction(signal, nullptr, &action);
        // nohup and background jobs have a signal ignored on purpose.
        if (action.sa_handler == SIG_IGN) continue;
        action.sa_handler = note_signal;
        action.sa_flags = SA_RESETHAND;
        ::sigaction(signal, &action, nullptr);
    }
}

void check_interrupt() {
    if (arrived_signal != 0) throw Interrupted(arrived_signal);
}

void end_by_signal(int signal) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    std::exit(128 + signal);
}

}  // namespace gptrain
