#include "metrics/prometheus.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "base/output_file.h"
#include "base/text.h"

namespace gptrain {
namespace {

/// The name of a scalar metric in Prometheus (names have base units) and its description. `factor`
/// converts to the base unit.
struct Gauge {
    std::string_view metric;  ///< as in for_each_metric and for_each_rare_metric
    std::string_view name;
    std::string_view help;
    double factor = 1;
};
constexpr Gauge gauges[] = {
    {"loss", "loss", "Mean cross-entropy per token of the last logged step, in nats."},
    {"mean_loss", "mean_loss",
     "Mean cross-entropy per token over the steps since the previous logged step, in nats."},
    {"grad_norm", "grad_norm", "Norm of all gradients before clipping."},
    {"lr", "learning_rate", "Learning rate."},
    {"loss_scale", "loss_scale", "Loss scale; 1 unless fp16."},
    {"tokens_per_s", "tokens_per_second", "Tokens trained on per second."},
    {"step_time_s", "step_time_seconds", "Time of a step."},
    {"tflops_per_device", "device_flops_per_second", "Model FLOP/s of a device.", 1e12},
    {"consumed_samples", "consumed_samples", "Samples since the start of training."},
    {"consumed_tokens", "consumed_tokens", "Tokens since the start of training."},
    {"memory_bytes", "memory_bytes", "Memory that the largest rank allocated."},
    {"skipped_steps", "skipped_steps", "Updates skipped since the start of training."},
    {"offload_wait_s", "offload_wait_seconds",
     "Time of a step for which computation waits for copies from and to host memory."},
    {"expert_slices", "expert_slices", "Slices in which a step computes its experts."},
    {"repeats", "repeats", "Repeats of steps with more slices since the start of training."}};

const Gauge& gauge_of(std::string_view metric) {
    const auto found = std::ranges::find(gauges, metric, &Gauge::metric);
    GPTRAIN_CHECK(found != std::end(gauges), "no gauge for ", metric);
    return *found;
}

/// The value of a label: backslash, quote and line end are escaped.
std::string label_value(std::string_view value) {
    std::string out;
    for (const char c : value) {
        switch (c) {
            case '\\': out += "\\\\"; break;
            case '"': out += "\\\""; break;
            case '\n': out += "\\n"; break;
            default: out += c;
        }
    }
    return out;
}

class Writer {
public:
    explicit Writer(std::string_view run) : run_(label_value(run)) {}

    void begin(std::string_view name, std::string_view help) {
        out_ += text("# HELP gptrain_", name, ' ', help, "\n# TYPE gptrain_", name, " gauge\n");
    }
    /// `label`: empty, or further labels after a comma.
    void value(std::string_view name, std::string_view label, const auto& value) {
        out_ += text("gptrain_", name, "{run=\"", run_, '"', label, "} ", value, '\n');
    }
    std::string take() { return std::move(out_); }

private:
    std::string run_;
    std::string out_;
};

void write_measures(Writer& writer, std::string_view prefix,
                    const std::vector<ReportedMeasure>& measures) {
    for (const ReportedMeasure& measure : measures) {
        const std::string name = text(prefix, measure.row->name);
        writer.begin(name, text(title_of(prefix, *measure.row), ", in ", measure.row->unit, "."));
        for (const MeasuredNumber& number : measure.numbers) {
            if (!std::isfinite(number.value.mean())) continue;
            const std::string label =
                measure.row->of == MeasureOf::batch
                    ? ""
                    : text(',', name_of(measure.row->of), "=\"", label_value(number.label), '"');
            writer.value(name, label, number.value.mean());
        }
    }
}

void write_comm(Writer& writer, const std::vector<CommMetric>& comm) {
    const auto label = [](const CommMetric& each) { return text(",axis=\"", each.axis, '"'); };
    if (comm.empty()) return;
    writer.begin("comm_bytes",
                 "Bytes that the busiest rank sends in a step on an axis of the mesh.");
    for (const CommMetric& each : comm)
        writer.value("comm_bytes", label(each), each.bytes);
    writer.begin("comm_seconds", "Time of a step that computation waits for an axis of the mesh.");
    for (const CommMetric& each : comm) {
        if (each.seconds) writer.value("comm_seconds", label(each), *each.seconds);
    }
}

void write_tasks(Writer& writer, const TaskEvaluation& tasks) {
    if (tasks.metrics.empty()) return;
    writer.begin("task", "Last result on a task.");
    for (const TaskMetric& each : tasks.metrics) {
        if (!std::isfinite(each.value)) continue;
        writer.value(
            "task",
            text(",task=\"", label_value(each.task), "\",metric=\"", label_value(each.metric), '"'),
            each.value);
    }
}

}  // namespace

std::string prometheus_text(std::string_view run, const StepMetrics& metrics,
                            const std::optional<Validation>& validation,
                            const TaskEvaluation& tasks) {
    Writer writer(run);
    writer.begin("step", "Last logged step.");
    writer.value("step", "", metrics.step);
    const auto write_metric = [&](std::string_view name, const auto& value) {
        const Gauge& gauge = gauge_of(name);
        if (!value || !std::isfinite(static_cast<double>(*value))) return;
        writer.begin(gauge.name, gauge.help);
        if (gauge.factor == 1) {
            writer.value(gauge.name, "", *value);
        } else {
            writer.value(gauge.name, "", gauge.factor * static_cast<double>(*value));
        }
    };
    for_each_metric(metrics, write_metric);
    for_each_rare_metric(metrics, write_metric);
    write_measures(writer, "", metrics.measures);
    if (validation && validation->val_loss) {
        writer.begin("val_loss", "Mean cross-entropy per token of the validation data, in nats.");
        writer.value("val_loss", "", *validation->val_loss);
    }
    if (validation) write_measures(writer, validation_prefix, validation->measures);
    write_tasks(writer, tasks);
    write_comm(writer, metrics.comm);
    writer.begin("goodput_seconds", "Running time by use, over all starts of the run.");
    for (const TimePart& part : time_parts) {
        writer.value("goodput_seconds", text(",part=\"", part.name, '"'),
                     metrics.goodput.*part.seconds);
    }
    return writer.take();
}

void PrometheusFile::write(const StepMetrics& metrics) {
    metrics_ = metrics;
    write();
}

void PrometheusFile::write(const Validation& validation) {
    validation_ = validation;
    if (metrics_) write();
}

void PrometheusFile::write(const TaskEvaluation& evaluation) {
    tasks_ = evaluation;
    if (metrics_) write();
}

void PrometheusFile::write() {
    try {
        refresh_output_file(file_, prometheus_text(run_, *metrics_, validation_, tasks_));
    } catch (const Error& error) {
        if (!warned_) warn("logging.prometheus: ", error.what(), "; training continues");
        warned_ = true;
    }
}

}  // namespace gptrain
