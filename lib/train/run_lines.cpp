#include "train/run_lines.h"

#include <cmath>

#include "base/text.h"
#include "spec/model_cost.h"

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
    const std::int64_t frozen = frozen_parameters(plan);
    const std::string of_them = frozen == 0 ? "" : text(" (", grouped(frozen), " of them frozen)");
    return text("model: ", grouped(parameter_count(plan.model)), " parameters", of_them, " in ",
                counted(plan.model.layers, "layer"), ", ",
                plan.fp8 ? "fp8" : name_of(plan.compute));
}

std::string data_line(const TrainingData& data, bool evaluates) {
    std::string validation = "no evaluation";
    if (data.validation) validation = counted(data.validation_tokens, "validation token");
    if (!data.validation && evaluates) validation = "no validation data: no evaluation";
    const bool masked = data.learned_tokens < data.train_tokens;
    const std::string learned =
        masked ? text(", ", grouped(data.learned_tokens), " of them learned") : "";
    return text("data: ", counted(data.train_tokens, "training token"), learned, ", ", validation);
}

std::string run_line(const RunPlan& plan, const TrainingData& data) {
    const std::int64_t tokens = tokens_in_samples(data.run_samples, plan.seq_length, data.phase);
    // Epochs count tokens, because samples before a change of data may have had another length.
    const double epochs = static_cast<double>(tokens) / static_cast<double>(data.train_tokens);
    return text("run: ", counted(plan.steps, "step"), ", ", counted(tokens, "token"), ", ",
                few_digits(epochs), " epochs");
}

/// " after its 10 samples of pass 1".
std::string start_of(const SourceProgress& source) {
    std::string read;
    const auto add = [&](std::int64_t given, const std::string& length) {
        if (given == 0) return;
        read += text(read.empty() ? " after its " : " and ", counted(given, "sample"), length);
    };
    const auto of_length = [](std::int64_t tokens) { return text(" of ", tokens, " tokens"); };
    for (const LengthChange& change : source.changes)
        add(change.given, of_length(change.seq_length));
    add(source.given, source.changes.empty() ? "" : of_length(source.seq_length));
    if (!read.empty()) return text(read, " of pass ", source.pass + 1);
    return source.pass > 0 ? text(" from the start of pass ", source.pass + 1) : " from its start";
}

std::string device_line(const MeshShape& mesh, const StartSummary& summary) {
    const std::string_view each = mesh.size() > 1 ? " per rank" : "";
    return text("device: ", summary.device, each, "; mesh: dp ", mesh.data, " pp ", mesh.pipeline,
                " cp ", mesh.context, " tp ", mesh.tensor,
                mesh.expert > 1 ? text(" experts ", mesh.expert) : "",
                "; memory: ", human_bytes(summary.memory_bytes), each);
}

}  // namespace

std::array<std::string, 5> start_lines(const RunPlan& plan, const TrainingData& data,
                                       const StartSummary& summary) {
    return {model_line(plan), data_line(data, summary.evaluates), run_line(plan, data),
            device_line(plan.mesh, summary), text("output: ", summary.output_dir.string())};
}

std::string change_line(const TrainingData& data) {
    const DataPhase& phase = data.phase.value();
    std::string line = text("data: from sample ", phase.first_sample, " on");
    for (std::size_t i = 0; i < data.train_sources.size(); ++i) {
        append(line, text(i > 0 ? ", " : " ", data.train_sources[i].prefix.string(),
                          start_of(phase.sources[i])));
    }
    return line;
}

std::string nothing_left(std::int64_t step, std::int64_t steps,
                         const std::vector<std::string>& idle) {
    if (step > steps) {
        return text("the checkpoint is of step ", step, ", after training.steps ", steps,
                    "; --resume DIR starts from an earlier one, and training.steps above ", step,
                    " trains on");
    }
    std::string effect;
    for (const std::string& key : idle)
        effect += (effect.empty() ? ", so the new " : ", ") + key;
    if (!effect.empty()) effect += idle.size() == 1 ? " has no effect" : " have no effect";
    return text("the checkpoint has the run's last step, ", steps, effect,
                "; a larger training.steps trains on");
}

bool only_trains(std::string_view key) {
    if (key == "training.steps" || key.starts_with("training.eval_")) return false;
    for (const std::string_view section :
         {"training.", "optimizer.", "lr_schedule.", "model.", "precision.", "adapter."}) {
        if (key.starts_with(section)) return true;
    }
    return false;
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
