// The lines of metrics.jsonl, as they are written and read back:
//   {"step": 1, "loss": 9.01, ..., "comm": {"dp": {"bytes": 8, "seconds": 1}}, "goodput": {...}}
//   {"step": 100, "val_loss": 5.2}
//   {"step": 100, "val_loss": 5.2, "val_loss_by_source": {"web": {"loss": 5.4, "tokens": 900},
//   ...}}
//   {"step": 100, "tasks": {"hellaswag": {"acc": 0.31, "acc_stderr": 0.0046, ...}, ...}}
//   {"event": "resume", "step": 100}
//   {"event": "resume", "step": 100, "rolled_back_from": 131}
//   {"event": "data", "step": 100, "consumed_samples": 6400}
//   {"event": "skip", "step": 131, "reason": "the loss, 9.1, is above 6.2 (faults.loss_spike)"}
//   {"event": "start", "step": 101, "seconds": {"launch": 0.3, ...}, "loaded": "checkpoint"}
//   {"event": "save_failed", "step": 150, "reason": "no space left on device"}
//   {"event": "end", "step": 200, "goodput": {...}}
// Numbers are written in the shortest form that reads back as the same value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/words.h"
#include "metrics/comm_metrics.h"
#include "metrics/goodput.h"
#include "metrics/reported_measures.h"
#include "metrics/start_times.h"
#include "metrics/task_results.h"

namespace gptrain {

/// The metrics of a logged step. Unknown values are empty. They and non-finite values are written
/// as null.
struct StepMetrics {
    std::int64_t step = 0;                 ///< counted from 1
    std::optional<double> loss = {};       ///< of this step only
    std::optional<double> mean_loss = {};  ///< over the steps since the last interval ended
    std::optional<double> grad_norm = {};  ///< before clipping
    std::optional<double> lr = {};
    std::optional<double> loss_scale = {};
    std::optional<double> tokens_per_s = {};
    std::optional<double> step_time_s = {};
    std::optional<double> tflops_per_device = {};
    std::optional<std::int64_t> consumed_samples = {};
    std::optional<std::int64_t> consumed_tokens = {};
    std::optional<std::int64_t> memory_bytes = {};
    std::optional<std::int64_t> skipped_steps = {};
    std::optional<double> offload_wait_s = {};       ///< with offload on GPUs
    std::optional<std::int64_t> expert_slices = {};  ///< with an expert axis
    std::optional<std::int64_t> repeats = {};        ///< the same; since the start of training
    std::vector<ReportedMeasure> measures = {};
    std::vector<CommMetric> comm = {};
    TimeSpent goodput = {};  ///< all 0 if unknown
};

/// Calls visit(name, optional value) for every scalar metric except the step, in the order of the
/// file. `Metrics`: StepMetrics, const or not.
void for_each_metric(auto& metrics, const auto& visit) {
    visit("loss", metrics.loss);
    visit("mean_loss", metrics.mean_loss);
    visit("grad_norm", metrics.grad_norm);
    visit("lr", metrics.lr);
    visit("loss_scale", metrics.loss_scale);
    visit("tokens_per_s", metrics.tokens_per_s);
    visit("step_time_s", metrics.step_time_s);
    visit("tflops_per_device", metrics.tflops_per_device);
    visit("consumed_samples", metrics.consumed_samples);
    visit("consumed_tokens", metrics.consumed_tokens);
    visit("memory_bytes", metrics.memory_bytes);
    visit("skipped_steps", metrics.skipped_steps);
}

/// The same for those that only some runs have. The file has them where they are known.
void for_each_rare_metric(auto& metrics, const auto& visit) {
    visit("offload_wait_s", metrics.offload_wait_s);
    visit("expert_slices", metrics.expert_slices);
    visit("repeats", metrics.repeats);
}

/// An evaluation of the weights after `step` steps.
struct Validation {
    std::int64_t step = 0;
    std::optional<double> val_loss = {};
    std::vector<ReportedMeasure> measures = {};
};

/// The results on tasks of the weights after `step` steps.
struct TaskEvaluation {
    std::int64_t step = 0;
    std::vector<TaskMetric> metrics = {};
};

struct RunEvent {
    enum class Kind {
        resume,       ///< the run continues after `step`; logged lines of later steps do not count
        data,         ///< after `step` the run reads other data
        skip,         ///< the update of `step` was skipped
        save_failed,  ///< a checkpoint could not be written; noticed after `step`
    };
    Kind kind = Kind::resume;
    std::int64_t step = 0;
    std::optional<std::int64_t> rolled_back_from = {};  ///< resume: the step of the loss spike
    std::optional<std::int64_t> consumed_samples = {};  ///< data: the first sample of the new data
    std::string reason = {};                            ///< skip and save_failed
};
constexpr auto words_of(RunEvent::Kind) {
    using enum RunEvent::Kind;
    return std::to_array<Word<RunEvent::Kind>>(
        {{resume, "resume"}, {data, "data"}, {skip, "skip"}, {save_failed, "save_failed"}});
}

/// The time account when a start of the run has ended, with its last save.
struct EndOfStart {
    std::int64_t step = 0;  ///< the last one
    TimeSpent goodput = {};
};

using MetricsLine =
    std::variant<StepMetrics, Validation, TaskEvaluation, RunEvent, StartReport, EndOfStart>;

/// The line without its newline.
std::string to_text(const StepMetrics& metrics);
std::string to_text(const Validation& validation);
std::string to_text(const TaskEvaluation& evaluation);
std::string to_text(const RunEvent& event);
std::string to_text(const StartReport& start);
std::string to_text(const EndOfStart& end);

/// Reads a line without its newline. Empty if it is not one of these lines. Ignores unknown keys,
/// which later versions may write, and leaves missing ones empty, which older versions lack.
std::optional<MetricsLine> parse_metrics_line(std::string_view line);

}  // namespace gptrain
