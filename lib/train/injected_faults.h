// Faults that a test makes happen on this rank (`fault_injection` of the run spec). Each says one
// warning when it happens. What a fault leaves open, its action, tensor, element and bit, is drawn
// from the section's seed, the fault's place in the list and its step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "base/file_calls.h"
#include "base/philox.h"
#include "engine/engine.h"
#include "schedule/action_listener.h"
#include "spec/run_plan.h"

namespace gptrain {

/// A fault of this rank.
struct RankFault {
    InjectedFault fault;
    std::uint32_t number = 0;  ///< in the list of the section
};

/// Those that happen in calls that change something in the folder of checkpoints. Calls are counted
/// for each fault from the beginning of its step on, on all threads together.
class CallFaults final : public CallFates {
public:
    CallFaults(const std::vector<InjectedFault>& faults, int rank,
               std::filesystem::path checkpoints);
    CallFaults(const CallFaults&) = delete;
    CallFaults& operator=(const CallFaults&) = delete;
    /// Says of faults whose step has begun but whose call has not come how many calls there were.
    ~CallFaults() override;

    void begin_step(std::int64_t step);
    CallFate fate_of(std::string_view call, const std::filesystem::path& path) override;

private:
    struct Counted {
        InjectedFault fault;
        bool counts = false;
        std::int64_t seen = 0;
    };
    std::vector<Counted> faults_;
    int rank_;
    std::filesystem::path folder_;
    std::mutex mutex_;
};

/// All of them. The engine's listener, so that faults can happen in the midst of a step.
class InjectedFaults final : public ActionListener {
public:
    /// What faults happen to; it outlives them, but for the engine, which is not used at the end.
    struct Target {
        Engine& engine;
        const RunPlan& plan;
        int rank;
        std::filesystem::path checkpoints;
    };
    /// Rank 0 says that they will happen.
    InjectedFaults(const FaultInjectionSpec& spec, Target target);

    /// Before a step with so many microbatches on a data rank is issued.
    void begin_step(std::int64_t step, std::int64_t microbatches);
    /// When it was: here a bit of a weight flips.
    void end_step();

    void step_begins() override;
    void begins(const Action& action) override;
    void ends(const Action& /*action*/) override {}
    void step_ends() override { in_actions_ = false; }

private:
    /// Of this step, of a kind.
    std::vector<RankFault> due(InjectedFault::Kind kind) const;
    PhiloxBlock draw(const RankFault& fault) const;
    void be_slow() const;
    void spoil_gradient(const RankFault& fault) const;
    void flip_bit(const RankFault& fault) const;

    std::uint64_t seed_;
    Target target_;
    std::vector<RankFault> faults_;
    CallFaults of_calls_;
    std::int64_t step_ = 0;
    std::int64_t actions_ = 0;  ///< of the step
    std::int64_t begun_ = 0;    ///< of them
    bool in_actions_ = false;
};

}  // namespace gptrain
