// One start of a run: the loop over steps, evaluations and checkpoints.
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

/// All ranks construct it and call it together. What it gets by reference must outlive it.
class Run {
public:
    /// Only rank 0 has a `directory`; it prints and writes for all. `cost` is the cost of one step
    /// on this rank.
    Run(const RunInputs& inputs, const std::optional<RunDirectory>& directory,
        const RunDevices& devices, StepCost cost);

    /// Initialises the model or resumes from a checkpoint.
    void start(std::optional<RestartPoint>& checkpoint);
    /// Trains until the last step or a request to stop. `requests` must outlive the call.
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
    /// The most urgent request of any rank, the same on all.
    Request request() const;
    /// Loss of the last step.
    LossSum loss_sum() const { return {state_.loss_sum, state_.token_weight_sum}; }
    double mean_loss() const { return loss_sum().mean(); }
    bool has_validation() const;

    std::unique_ptr<CheckpointSaver> make_saver(const Retention& retention, bool async);
    void inject_faults();
    SavedRun load(RestartPoint& checkpoint);
    void start_reports();
    /// Issues the next step, then finishes the one before it.
    void issue_step(const StepBatch& batch);
    /// Waits for the step in flight, if any, and takes over its results.
    void finish_step();
    /// True if what follows the step in flight needs its results.
    bool results_due() const;
    /// Reports that the step just finished skipped its update.
    void warn_of_skip(std::int64_t samples) const;
    /// The rank and tensor where the fault occurred. All ranks call it.
    std::string fault_of_step(std::int64_t first_sample) const;
    /// Throws on all ranks if ranks that should hold the same weights do not.
    void check_replicas();
    bool replica_check_due(std::int64_t step) const {
        return mesh_.dp_cp().size() > 1 && due(spec_.faults.replica_check_interval, step);
    }
    /// Reports memory outside the plan, after the first step: by then all libraries have allocated
    /// theirs.
    void report_other_memory();
    /// True if too many steps in a row were skipped.
    bool diverged() const;
    [[noreturn]] void fail_diverged();
    /// Ends the save in flight, then throws (numerical). All ranks call it.
    [[noreturn]] void fail_numerically(const std::string& message);
    /// Acts on a loss above its limit in the step just finished.
    void act_on_spike();
    /// Loads the weights of the newest checkpoint and continues with the samples after the spike.
    void roll_back();
    void log_step();
    /// Returns false if a request to stop interrupted it.
    bool evaluate();
    void save();
    /// Waits for the last save and throws if it failed.
    void wait_for_save();
    /// If the output directory is no longer the one that this run holds, all ranks leave.
    void check_directory();
    /// Saves into a new output directory and throws.
    [[noreturn]] void save_and_leave();
    /// Warns if the loss stays above that of guessing.
    void warn_of_high_loss();
    /// Prints the best save interval, once per start, if the run is long enough for it. `stall`:
    /// seconds for which the first checkpoint stalled training.
    void print_save_interval(double stall) const;
    std::string end_summary() const;
    ExitCode finished();
    ExitCode stopped(Request why);

    const RunSpec& spec_;
    const RunPlan& plan_;
    const TrainingData& data_;
    const Json& identity_;
    std::vector<WholeFile> files_;  ///< included in every checkpoint
    const std::optional<RunDirectory>& directory_;
    RunPaths paths_;
    const Requests* requests_ = nullptr;  ///< set while `run` is running
    const Mesh& mesh_;
    const MpiSession& ranks_;
    Observers& observers_;
    Progress& progress_;
    CommMetrics comm_metrics_;
    Clock::time_point started_;
    RunSpec effective_;
    std::string effective_yaml_;
    StepCost cost_;
    std::int64_t max_memory_;                   ///< planned bytes of the rank with the largest plan
    std::unique_ptr<InjectedFaults> injected_;  ///< in tests only
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<CheckpointSaver> saver_;
    std::optional<Reports> reports_;  ///< on rank 0

    /// A step that was issued and whose results have not been read yet.
    struct StepInFlight {
        Engine::StatePoint state;
        std::int64_t samples = 0;
    };
    std::optional<StepInFlight> in_flight_;
    Clock::time_point finished_at_;  ///< end of the previous step, or start of this one

    std::int64_t step_ = 0;  ///< steps done so far
    std::int64_t consumed_samples_ = 0;
    StepState state_{};  ///< after the last step
    IntervalLoss interval_loss_;
    LossSpikes loss_spikes_;
    HighLoss high_loss_;
    struct Spike {
        std::int64_t step;
        std::int64_t consumed_samples;  ///< including the spike's
    };
    std::optional<Spike> spike_;           ///< the spike to roll back from
    std::int64_t rollbacks_in_a_row_ = 0;  ///< without a new checkpoint in between
    double loss_scale_ = 1;                ///< used in the last step
    struct Throughput {
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
    Throughput since_logged_;  ///< since the last logged line
    Throughput since_start_;
    std::optional<Evaluation> evaluation_;  ///< the last one of this start
    std::filesystem::path checkpoint_;      ///< the newest one loaded or started to save
    bool other_memory_reported_ = false;
    double slowest_step_ = 0;
    double slowest_save_ = 0;
    double load_seconds_ = 0;  ///< of the last load
    std::int64_t saves_ = 0;   ///< in this start
    Goodput goodput_;
};

}  // namespace gptrain
