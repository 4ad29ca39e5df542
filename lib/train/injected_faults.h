// Faults injected on this rank for tests (`fault_injection` of the run spec). Each prints one
// warning when it strikes. Whatever the spec leaves open (action, tensor, element, bit) is drawn
// from the section's seed, the fault's index in the list and its step.
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
    std::uint32_t number = 0;  ///< index in the section's list
};

/// Faults in system calls that change something in the checkpoint folder. Each fault counts calls
/// on all threads, from the start of its step.
class CallFaults final : public CallInterceptor {
public:
    CallFaults(const std::vector<InjectedFault>& faults, int rank,
               std::filesystem::path checkpoints);
    CallFaults(const CallFaults&) = delete;
    CallFaults& operator=(const CallFaults&) = delete;
    /// Reports the faults whose step came but whose call did not, with the number of calls seen.
    ~CallFaults() override;

    void begin_step(std::int64_t step);
    CallFate intercept(std::string_view call, const std::filesystem::path& path) override;

private:
    struct CountedFault {
        InjectedFault fault;
        bool counts = false;
        std::int64_t seen = 0;
    };
    std::vector<CountedFault> faults_;
    int rank_;
    std::filesystem::path folder_;
    std::mutex mutex_;
};

/// All injected faults. Listens to the engine, so that faults can strike in the middle of
/// a step.
class InjectedFaults final : public ActionListener {
public:
    /// What the faults act on. It must outlive them, except for the engine, which the destructor
    /// does not use.
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

    void on_step_begin() override;
    void on_begin(const Action& action) override;
    void on_end(const Action& /*action*/) override {}
    void on_step_end() override { in_actions_ = false; }

private:
    /// The faults of this kind that are due in the current step.
    std::vector<RankFault> due(InjectedFault::Kind kind) const;
    PhiloxBlock draw(const RankFault& fault) const;
    void delay_step() const;
    void corrupt_gradient(const RankFault& fault) const;
    void flip_bit(const RankFault& fault) const;

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
