// The reports of one start of a run: metrics, the console's lines, and warnings about its progress.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "metrics/comm_metrics.h"
#include "metrics/reports.h"
#include "train/high_loss.h"
#include "train/run_devices.h"
#include "train/run_inputs.h"
#include "train/run_lines.h"
#include "train/run_state.h"
#include "train/sliced_steps.h"

namespace gptrain {

/// All ranks construct and call it; rank 0 prints and writes. The references must outlive it.
class RunReport {
public:
    /// `planned`: this rank's memory.
    RunReport(const RunInputs& inputs, const RunDevices& devices, const MemoryPlan& planned);

    /// Opens metrics.jsonl in the output directory, and checks before each line that it is still
    /// this start's. Only rank 0 calls it.
    void open(const RunDirectory& directory) {
        reports_.emplace(directory.paths(), [&directory] { directory.require_own(); });
    }
    /// Names what the start has loaded; `repeated`: the seconds of training that the run repeats.
    void loaded(std::string name, std::optional<double> repeated);
    /// The reports; null except on rank 0.
    Reports* reports() { return reports_ ? &*reports_ : nullptr; }

    /// The time account of the last logged step, on rank 0.
    std::optional<TimeSpent> logged_time() const;
    /// True on all ranks if an evaluation after this step is in metrics.jsonl.
    bool has_validation(std::int64_t step) const;
    /// The same for an evaluation on tasks.
    bool has_tasks(std::int64_t step) const;

    /// Call it after every step, with the state after it.
    void step_finished(const FinishedStep& finished, const RunState& run);
    /// Logs the last step.
    void log(const RunState& run);
    /// An evaluation after `step`.
    void validation(std::int64_t step, const EvaluationSums& sums);
    /// A resume forgets the last evaluation of this start.
    void event(const RunEvent& event);
    /// Logs the time account after the last save, if the reports have begun.
    void ended(const RunState& run);

    /// Prints the best save interval if the run is long enough for it. `stall`: seconds for which
    /// a checkpoint stalls training. `step`: seconds of the slowest step.
    void print_save_interval(double stall, double step) const;
    /// "after step 100: mean_loss ..." (see to_text). `checkpoint`: the newest one.
    std::string end_summary(const RunState& run, const std::filesystem::path& checkpoint) const;

private:
    /// Reports what the start has spent, once.
    void report_start(std::int64_t step);
    /// Warns if the loss stays above that of guessing.
    void warn_of_high_loss(const RunState& run);
    /// Warns if most steps compute their experts in slices.
    void warn_of_slices(const RunState& run);
    /// Reports memory outside the plan, after the first step: by then all libraries have allocated
    /// theirs.
    void report_other_memory();
    /// Seconds of a step for which the rank that waits the longest waits for offloaded tensors,
    /// since the last line; nothing without such copies.
    std::optional<double> offload_wait() const;

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

    const RunPlan& plan_;
    std::optional<DataPhase> phase_;    ///< of the training data
    std::vector<std::string> sources_;  ///< names of those that validation blends
    Backend& backend_;
    const MpiSession& ranks_;
    Observers& observers_;
    StartTimes& start_times_;
    StartReport start_;
    CommMetrics comm_metrics_;
    HighLoss high_loss_;
    SlicedSteps sliced_steps_;
    std::int64_t device_memory_;      ///< planned bytes of this rank on the device
    std::int64_t max_memory_;         ///< planned bytes of the rank with the largest plan
    std::optional<Reports> reports_;  ///< on rank 0
    Throughput since_logged_;         ///< since the last logged line
    Throughput since_start_;
    std::optional<Evaluation> evaluation_;  ///< the last one of this start
    bool other_memory_reported_ = false;
};

}  // namespace gptrain
