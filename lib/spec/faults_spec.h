// The sections `faults` and `fault_injection` of a run spec.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/words.h"

namespace gptrain {

struct LossSpike {
    enum class Action { skip, rollback, stop };
    double factor = 0;
    std::int64_t window = 0;
    Action action = Action::skip;

    bool operator==(const LossSpike&) const = default;
};
constexpr auto words_of(LossSpike::Action) {
    using enum LossSpike::Action;
    return std::to_array<Word<LossSpike::Action>>(
        {{skip, "skip"}, {rollback, "rollback"}, {stop, "stop"}});
}

struct TimeLimit {
    bool job_end = false;      ///< auto: the end of the Slurm job
    std::int64_t seconds = 0;  ///< otherwise: seconds since the start

    bool operator==(const TimeLimit&) const = default;
};

struct FaultsSpec {
    std::int64_t hang_seconds = 600;
    double silence_factor = 3;  ///< 0: hang_seconds alone counts
    std::int64_t max_skipped_steps = 10;
    std::int64_t replica_check_interval = 0;
    std::int64_t replay_interval = 0;  ///< steps between microbatches that run twice; 0: none
    std::optional<LossSpike> loss_spike;
    std::optional<TimeLimit> time_limit;

    bool operator==(const FaultsSpec&) const = default;
};

/// A fault injected for tests. Keys that its kind does not use keep their defaults.
struct InjectedFault {
    enum class Kind {
        kill,
        stop,
        error,
        nan,
        bit_flip,
        no_space,
        io_error,
        short_write,
        slow,
        miscompute
    };
    Kind kind = Kind::kill;
    std::int64_t rank = 0;
    std::int64_t step = 0;
    std::int64_t call = 0;   ///< counts calls that change checkpoints, from that step on; 0: none
    std::int64_t calls = 1;  ///< consecutive calls that fail
    double seconds = 0;      ///< delay of every step from `step` on

    bool operator==(const InjectedFault&) const = default;
};
constexpr auto words_of(InjectedFault::Kind) {
    using enum InjectedFault::Kind;
    return std::to_array<Word<InjectedFault::Kind>>({{kill, "kill"},
                                                     {stop, "stop"},
                                                     {error, "error"},
                                                     {nan, "nan"},
                                                     {bit_flip, "bit_flip"},
                                                     {no_space, "no_space"},
                                                     {io_error, "io_error"},
                                                     {short_write, "short_write"},
                                                     {slow, "slow"},
                                                     {miscompute, "miscompute"}});
}

struct FaultInjectionSpec {
    std::uint64_t seed = 1;
    std::vector<InjectedFault> faults;

    bool operator==(const FaultInjectionSpec&) const = default;
};

}  // namespace gptrain
