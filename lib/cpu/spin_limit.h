// Waiting OpenMP threads sleep sooner while other programs use their cores.
#pragma once

#include <sys/types.h>
#include <thread>
#include <vector>

namespace gptrain::cpu {

/// Starts `threads` OpenMP threads, the calling one included, and returns the system's ids of all.
/// If the system refuses a thread, OpenMP would print a message and end the program; this throws
/// std::system_error instead.
std::vector<pid_t> start_openmp(int threads);

/// Limits how long OpenMP's threads spin while other programs use their cores, as long as it lives.
///
/// A thread of GCC's OpenMP that waits for another spins for milliseconds before it sleeps. That
/// costs nothing while nobody else wants its core. Otherwise the system counts the spinning as use
/// of the core and gives the core to others later, just when all threads wait for this one.
///
/// So a thread of this class observes how long OpenMP's threads wait for a core, in Linux's
/// scheduler statistics. While they wait a lot, it keeps more OpenMP threads than there are cores.
/// The additional ones sleep, but now GCC's OpenMP lets all others sleep almost at once, too.
/// Results do not depend on it.
///
/// Does nothing for a single thread, without scheduler statistics, or if OMP_WAIT_POLICY or
/// GOMP_SPINCOUNT is set, because the user has chosen.
class SpinLimit {
public:
    /// `threads` are the ids of the OpenMP threads.
    explicit SpinLimit(std::vector<pid_t> threads);

private:
    std::jthread observer_;
};

}  // namespace gptrain::cpu
