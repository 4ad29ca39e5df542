// Where the time of a start goes, from the start of the process to the end of the first step.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/words.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// The parts of a start, in the order of the table.
enum class StartPhase {
    launch,      ///< the process, until MPI connects the ranks
    agree,       ///< all ranks have the same program and spec
    check,       ///< of the attention kernels (a GPU)
    device,      ///< it is opened
    connect,     ///< the mesh
    inputs,      ///< tokenizer, token files and orders of samples are opened and checked
    lock,        ///< of the output directory
    plan,        ///< the memory that a step needs is counted, and is there
    checkpoint,  ///< the one to load is chosen, its structure verified
    tune,        ///< the algorithms of GEMMs (a GPU)
    memory,      ///< is allocated
    load,        ///< the state, or the starting weights
    evaluation,  ///< one that an earlier start left out
    first_step,
};
constexpr auto words_of(StartPhase) {
    using enum StartPhase;
    return std::to_array<Word<StartPhase>>({{launch, "launch"},
                                            {agree, "agree"},
                                            {check, "check"},
                                            {device, "device"},
                                            {connect, "connect"},
                                            {inputs, "inputs"},
                                            {lock, "lock"},
                                            {plan, "plan"},
                                            {checkpoint, "checkpoint"},
                                            {tune, "tune"},
                                            {memory, "memory"},
                                            {load, "load"},
                                            {evaluation, "evaluation"},
                                            {first_step, "first_step"}});
}

/// By StartPhase.
using StartSeconds = std::array<double, static_cast<std::size_t>(count_to(StartPhase::first_step))>;

/// The stopwatch of one rank. A phase that begins ends the one before it; phases may come again.
class StartTimes {
public:
    /// The phase `launch` has begun with the process.
    StartTimes();

    void begin(StartPhase phase);
    void end();
    bool ended() const { return ended_; }

    /// When the process started.
    std::chrono::steady_clock::time_point began() const { return began_; }
    const StartSeconds& seconds() const { return seconds_; }

private:
    std::chrono::steady_clock::time_point began_;
    std::chrono::steady_clock::time_point since_;
    StartPhase phase_ = StartPhase::launch;
    bool ended_ = false;
    StartSeconds seconds_{};
};

/// All ranks call it: of each phase, the seconds of the rank that took the longest. All 0 except on
/// rank 0.
StartSeconds slowest(const StartSeconds& own, const MpiSession& ranks);

/// The times of a start.
struct StartReport {
    std::int64_t step = 0;  ///< the first one
    StartSeconds seconds{};
    std::string loaded = {};  ///< "checkpoint", "copies in memory", ...; empty for a fresh start
    /// Seconds of training that the run has to repeat.
    std::optional<double> repeated = {};
    /// Seconds since the failure that this start follows, if the batch script knows it.
    std::optional<double> since_failure = {};
};

/// The seconds since the failure that this start follows: the batch script gives its time, in
/// seconds since 1970, in GPTRAIN_FAILED.
std::optional<double> seconds_since_failure();

/// The table for people. Leaves out phases below 0.05 s and 1 % of the start.
std::vector<std::string> start_table(const StartReport& report);

}  // namespace gptrain
