// One start of a run: its loop over steps, evaluations and checkpoints.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/restart_point.h"
#include "checkpoint/saver.h"
#include "engine/engine.h"
#include "report/comm_metrics.h"
#include "report/goodput.h"
#include "report/reports.h"
#include "train/high_loss.h"
#include "train/injected_faults.h"
#include "train/interval_loss.h"
#include "train/loss_spikes.h"
#include "train/requests.h"
#include "train/resume.h"
#include "train/run_devices.h"
#include "train/run_inputs.h"
#include "train/run_lines.h"

namespace gptrain {

/// All ranks make it and call it together. What it is made of outlives it.
class Run {
public:
    /// `directory` is rank 0's, which speaks and writes for all.
    /// `cost` is what a step of this rank costs.
    Run(const RunInputs& inputs, const std::optional<RunDirectory>& directory,
        const RunDevices& devices, StepCost cost);

    /// Begins anew, or goes on from a checkpoint.
    void start(std::optional<RestartPoint>& checkpoint);
    /// Until the last step, or until it is asked to stop. `requests` outlive this call.
    ExitCode run(const Requests& requests);

private:
    using Clock = std::chrono::steady_clock;

    StateSource state_source() {
        return [this](const StateVisitor& visitor) { engine_->visit(visitor); };
    }
    std::unique_ptr<BatchLoader> training_loader() const;
    static bool due(std::int64_t interval, std::int64_t step) {
        return interval > 0 && step % interval == 0;
    }
    bool evaluation_due(std::int64_t step) const {
        return data_.validation && spec_.training.eval_steps > 0 &&
               (due(spec_.training.eval_interval, step) || step == plan_.steps);
    }
    /// Of all ranks the weightiest, the same on all.
    Request request() const;
    /// Of the last step.
    LossSum loss_sum() const { return {state_.loss_sum, state_.token_weight_sum}; }
    double mean_loss() const { return loss_sum().mean(); }
    bool has_validation() const;

    std::unique_ptr<CheckpointSaver> make_saver(const Retention& retention, bool async);
    void inject_faults();
    SavedRun load(RestartPoint& checkpoint);
    void begin_reports();
    /// Issues the next step, then finishes the one before it.
    void issue_step(const StepBatch& batch);
    /// Waits for the step that is under way, if any, and takes over its results.
    void finish_step();
    /// Whether what follows the step under way needs its results.
    bool results_due() const;
    /// Of the step just finished, which left its update out.
    void warn_of_skip(std::int64_t samples) const;
    /// Which rank and tensor it was, found by all ranks together.
    std::string fault_of_step(std::int64_t first_sample) const;
    /// Throws on all ranks where those that should hold the same weights do not.
    void check_replicas();
    bool replica_check_due(std::int64_t step) const {
        return mesh_.dp_cp().size() > 1 && due(spec_.faults.replica_check_interval, step);
    }
    /// After the first step, by which all libraries have taken theirs.
    void tell_of_other_memory();
    /// Whether too many steps in a row were skipped.
    bool diverged() const;
    [[noreturn]] void fail_diverged();
    /// On all ranks together.
    [[noreturn]] void fail_numerically(const std::string& message);
    /// The step just finished has a loss above its limit.
    void act_on_spike();
    /// To the weights of the newest checkpoint, and on with the samples after the spike.
    void roll_back();
    void log_step();
    /// Returns false if it was cut short by a request to stop.
    bool evaluate();
    void save();
    /// For the last one, whose failure it throws.
    void wait_for_save();
    /// Where the output directory is no longer the one that this run holds, all ranks leave.
    void check_directory();
    /// Saves into a new output directory and throws.
    [[noreturn]] void leave_lost_directory();
    /// Of a loss that stays above that of guessing.
    void warn_of_high_loss();
    /// Once a start, where the run is long enough for it. `stall`: seconds that the first
    /// checkpoint has kept training waiting.
    void tell_of_save_interval(double stall) const;
    std::string end_line() const;
    ExitCode finished();
    ExitCode stopped(Request why);

    const RunSpec& spec_;
    const RunPlan& plan_;
    const TrainingData& data_;
    const Json& identity_;
    std::vector<WholeFile> files_;  ///< of every checkpoint
    const std::optional<RunDirectory>& directory_;
    RunPaths paths_;
    const Requests* requests_ = nullptr;  ///< while it runs
    const Mesh& mesh_;
    const MpiSession& ranks_;
    Observers& observers_;
    Progress& progress_;
    CommMetrics comm_metrics_;
    Clock::time_point started_;
    RunSpec effective_;
    std::string effective_yaml_;
    StepCost cost_;
    std::int64_t largest_memory_;               ///< planned bytes of the rank that has the most
    std::unique_ptr<InjectedFaults> injected_;  ///< in tests alone
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<CheckpointSaver> saver_;
    std::optional<Reports> reports_;  ///< rank 0's

    /// A step that was issued and whose results were not read yet.
    struct UnderWay {
        Engine::StatePoint state;
        std::int64_t samples = 0;
    };
    std::optional<UnderWay> under_way_;
    Clock::time_point finished_at_;  ///< the step before the one under way, or its own start

    std::int64_t step_ = 0;  ///< done so far
    std::int64_t consumed_samples_ = 0;
    StepState state_{};  ///< after the last step
    IntervalLoss interval_loss_;
    LossSpikes loss_spikes_;
    HighLoss high_loss_;
    struct Spike {
        std::int64_t step;
        std::int64_t consumed_samples;  ///< with it
    };
    std::optional<Spike> spike_;           ///< to roll back from
    std::int64_t rollbacks_in_a_row_ = 0;  ///< without a new checkpoint
    double loss_scale_ = 1;                ///< in use in the last step
    struct Timed {
        double seconds = 0;
        std::int64_t tokens = 0;
        std::int64_t steps = 0;
        void add(double step_seconds, std::int64_t step_tokens) {
            seconds += step_seconds;
            tokens += step_tokens;
            ++steps;
        }
        double tokens_per_s() const { return static_cast<double>(tokens) / seconds; }
    };
    Timed since_logged_;  ///< the last logged line
    Timed since_start_;
    std::optional<Evaluation> evaluation_;  ///< the last of this start
    std::filesystem::path checkpoint_;      ///< the newest that was begun or loaded
    bool other_memory_told_ = false;
    double slowest_step_ = 0;
    double slowest_save_ = 0;
    double load_seconds_ = 0;  ///< of the last one
    std::int64_t saves_ = 0;   ///< of this start
    Goodput goodput_;
};

}  // namespace gptrain
