#include "train/run_lines.h"

#include <cmath>

#include "base/checked.h"
#include "base/text.h"

namespace gptrain {
namespace {

/// "0.067", "1.3", "1,400": two significant digits, but all digits of the integer part.
std::string few_digits(double value) {
    if (value >= 10) return grouped(std::llround(value));
    int behind = 1;
    for (double scaled = value; scaled > 0 && scaled < 1 && behind < 9; scaled *= 10)
        ++behind;
    return fixed(value, behind);
}

std::string model_line(const RunPlan& plan) {
    return text("model: ", grouped(parameter_count(plan.model)), " parameters in ",
                counted(plan.model.layers, "layer"), ", ",
                plan.fp8 ? "fp8" : name_of(plan.compute));
}

std::string data_line(const TrainingData& data, bool evaluates) {
    std::string validation = "no evaluation";
    if (data.validation) validation = counted(data.validation_tokens, "validation token");
    if (!data.validation && evaluates) validation = "no validation data: no evaluation";
    return text("data: ", counted(data.train_tokens, "training token"), ", ", validation);
}

std::string run_line(const RunPlan& plan, std::int64_t samples_of_pass) {
    const std::int64_t samples = plan.batch.samples_of(plan.steps);
    const double epochs = static_cast<double>(samples) / static_cast<double>(samples_of_pass);
    return text("run: ", counted(plan.steps, "step"), ", ",
                counted(checked_mul(samples, plan.seq_length), "token"), ", ", few_digits(epochs),
                " epochs");
}

std::string device_line(const MeshShape& mesh, const StartSummary& summary) {
    const std::string_view each = mesh.size() > 1 ? " per rank" : "";
    return text("device: ", summary.device, each, "; mesh: dp ", mesh.data, " pp ", mesh.pipeline,
                " cp ", mesh.context, " tp ", mesh.tensor,
                "; memory: ", human_bytes(summary.memory_bytes), each);
}

}  // namespace

std::array<std::string, 5> start_lines(const RunPlan& plan, const TrainingData& data,
                                       const StartSummary& summary) {
    return {model_line(plan), data_line(data, summary.evaluates), run_line(plan, data.num_samples),
            device_line(plan.mesh, summary), text("output: ", summary.output_dir.string())};
}

std::string change_line(const TrainingData& data) {
    const DataPhase& phase = data.phase.value();
    std::string line = text("data: from sample ", phase.first_sample, " on");
    for (std::size_t i = 0; i < data.train_sources.size(); ++i) {
        const std::int64_t given = phase.sources[i].given;
        append(line, text(i > 0 ? ", " : " ", data.train_sources[i].prefix.string(),
                          given > 0 ? text(" after its ", counted(given, "sample"), " of pass ",
                                           phase.sources[i].pass + 1)
                                    : " from its start"));
    }
    return line;
}

std::string to_text(const EndSummary& summary) {
    std::string line;
    if (summary.mean_loss) line += text("mean_loss ", fixed(*summary.mean_loss, 4), ", ");
    if (const auto& evaluation = summary.evaluation) {
        line += text("val_loss ", fixed(evaluation->val_loss, 4));
        if (evaluation->step != summary.step) line += text(" after step ", evaluation->step);
        line += ", ";
    }
    if (summary.tokens_per_s) line += text(std::llround(*summary.tokens_per_s), " tok/s, ");
    return line + text(human_time(summary.seconds), " (goodput ", fixed(100 * summary.goodput, 1),
                       "%), checkpoint ", summary.checkpoint.string());
}

}  // namespace gptrain
