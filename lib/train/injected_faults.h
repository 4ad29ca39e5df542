// Faults injected on this rank for tests (`--inject`). Each prints one warning when it strikes. The
// choices that they leave open (action, tensor, element, bit) are drawn from their seed, the
// fault's index in the list and its step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/philox.h"
#include "engine/engine.h"
#include "schedule/action_listener.h"
#include "spec/run_plan.h"
#include "train/call_faults.h"

namespace gptrain {

/// A fault of this rank.
struct RankFault {
    InjectedFault fault;
    std::uint32_t number = 0;  ///< index in the section's list
};

/// All injected faults. Listens to the engine, so that faults can strike in the middle of
/// a step.
class InjectedFaults final : public ActionListener {
public:
    /// The run that the faults act on. It must outlive them, except for the engine, which the
    /// destructor does not use.
    struct Target {
        Engine& engine;
        const RunPlan& plan;
        int rank;
        std::filesystem::path checkpoints;
    };
    /// Rank 0 warns that faults will be injected.
    InjectedFaults(const FaultInjectionSpec& spec, Target target);

    /// Call before the step is issued. `microbatches`: of one data rank.
    void begin_step(std::int64_t step, std::int64_t microbatches);
    /// Call after the step is issued. Bits of weights flip here.
    void end_step();
    /// Call on each of the `count` results of a microbatch that runs a second time before `step`: a
    /// bit of one of them flips here, but never of the last one.
    void miscompute(std::int64_t step, std::int64_t index, std::int64_t count,
                    const Tensor& result) const;

    void on_step_begin() override;
    void on_begin(const Action& action) override;
    void on_end(const Action& /*action*/) override {}
    void on_step_end() override { in_actions_ = false; }

private:
    /// The faults of this kind that are due in a step.
    std::vector<RankFault> due(InjectedFault::Kind kind, std::int64_t step) const;
    PhiloxBlock draw(const RankFault& fault) const;
    void delay_step() const;
    void corrupt_gradient(const RankFault& fault) const;
    void flip_bit(const RankFault& fault) const;
    /// Flips the drawn bit of one number, and returns its place.
    std::size_t flip_in(const Tensor& value, std::uint32_t drawn) const;

    std::uint64_t seed_;
    Target target_;
    std::vector<RankFault> faults_;
    CallFaults call_faults_;
    std::int64_t step_ = 0;
    std::int64_t actions_ = 0;      ///< actions in the step
    std::int64_t next_action_ = 0;  ///< index of the next action in the step
    bool in_actions_ = false;
};

}  // namespace gptrain
