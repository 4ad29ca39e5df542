#include "metrics/reports.h"

#include <string>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "spec/spec_json.h"

namespace gptrain {
namespace {

void add_measures(std::vector<Scalar>& scalars, std::string_view prefix,
                  const std::vector<ReportedMeasure>& measures) {
    for (const ReportedMeasure& measure : measures) {
        for (const MeasuredNumber& number : measure.numbers)
            scalars.push_back(
                {path_of(prefix, *measure.row, number.label, '/'), number.value.mean()});
    }
}

}  // namespace

void Reports::begin(std::int64_t first, std::int64_t samples, const RunSpec& spec,
                    const BatchSchedule& batch) {
    if (first > 0 || !log_.empty())
        log_.write(RunEvent{.kind = RunEvent::Kind::resume, .step = first});
    settings_ = to_json(spec);
    if (spec.logging.tensorboard) open_tensorboard(first);
    if (spec.logging.prometheus) prometheus_.emplace(*spec.logging.prometheus, spec.name);
    console_.emplace(samples, spec.training.steps, batch);
}

void Reports::event(const RunEvent& event) {
    log_.write(event);
    // A new file makes TensorBoard drop later steps, as at a new start.
    if (event.kind == RunEvent::Kind::resume && tensorboard_) open_tensorboard(event.step);
}

void Reports::open_tensorboard(std::int64_t step) {
    try {
        tensorboard_.emplace(paths_.folder, step, settings_);
    } catch (const Error& failure) {
        warn(failure.what(), "; training continues without TensorBoard");
    }
}

void Reports::start(const StartReport& start) {
    log_.write(start);
    for (const std::string& line : start_table(start))
        print(line);
}

void Reports::step(const StepMetrics& metrics) {
    log_.write(metrics);
    console().step(metrics);
    if (prometheus_) prometheus_->write(metrics);
    if (!tensorboard_) return;
    std::vector<Scalar> scalars;
    const auto add_metric = [&](std::string_view name, const auto& value) {
        if (value) scalars.push_back({std::string(name), static_cast<double>(*value)});
    };
    for_each_metric(metrics, add_metric);
    for_each_rare_metric(metrics, add_metric);
    add_measures(scalars, "", metrics.measures);
    for (const CommMetric& axis : metrics.comm) {
        scalars.push_back({text("comm/", axis.axis, "/bytes"), static_cast<double>(axis.bytes)});
        if (axis.seconds) scalars.push_back({text("comm/", axis.axis, "/seconds"), *axis.seconds});
    }
    scalars.push_back({"goodput", metrics.goodput.goodput()});
    for (const TimePart& part : time_parts)
        scalars.push_back({text("goodput/", part.name), metrics.goodput.*part.seconds});
    tensorboard_->write(metrics.step, scalars);
}

void Reports::validation(const Validation& validation) {
    log_.write(validation);
    if (prometheus_) prometheus_->write(validation);
    console().validation(validation);
    if (!tensorboard_) return;
    std::vector<Scalar> scalars = {{"val_loss", *validation.val_loss}};
    add_measures(scalars, validation_prefix, validation.measures);
    tensorboard_->write(validation.step, scalars);
}

void Reports::tasks(const TaskEvaluation& evaluation) {
    log_.write(evaluation);
    if (prometheus_) prometheus_->write(evaluation);
    console().tasks(evaluation);
    if (!tensorboard_) return;
    std::vector<Scalar> scalars;
    for (const TaskMetric& each : evaluation.metrics)
        scalars.push_back({text("tasks/", each.task, "/", each.metric), each.value});
    tensorboard_->write(evaluation.step, scalars);
}

void Reports::ended(std::int64_t step, const TimeSpent& spent) {
    if (console_) log_.write(EndOfStart{step, spent});
}

void Reports::finish() {
    log_.finish();
    if (tensorboard_) tensorboard_->finish();
}

}  // namespace gptrain
