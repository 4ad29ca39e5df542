#include "metrics/console.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

namespace gptrain {
namespace {

std::string step_label(std::int64_t step, std::int64_t steps) {
    const std::string total = text(steps);
    const std::string number = text(step);
    const std::size_t padding = total.size() - std::min(total.size(), number.size());
    return text("step ", std::string(padding, ' '), number, "/", total);
}

/// The mean of a measure over its layers, of which there may be many, and the largest number.
std::string over_layers(const std::vector<MeasuredNumber>& numbers) {
    const auto mean = [](const MeasuredNumber& number) { return number.value.mean(); };
    const auto largest = std::ranges::max_element(numbers, {}, mean);
    double sum = 0;
    for (const MeasuredNumber& number : numbers)
        sum += mean(number);
    return text(significant(sum / static_cast<double>(numbers.size()), 3), " (",
                significant(mean(*largest), 3), " in layer ", largest->label, ")");
}

}  // namespace

std::string step_line(const StepMetrics& metrics, std::int64_t steps,
                      std::optional<double> seconds_left) {
    std::string line = step_label(metrics.step, steps);
    const auto add = [&](const std::optional<double>& value, const auto& written) {
        if (value) line += text("  ", written(*value));
    };
    add(metrics.mean_loss, [](double x) { return text("mean_loss ", fixed(x, 4)); });
    if (!metrics.mean_loss) {
        add(metrics.loss, [](double x) { return text("loss ", fixed(x, 4)); });
    }
    add(metrics.grad_norm, [](double x) { return text("grad_norm ", significant(x, 4)); });
    add(metrics.lr, [](double x) { return text("lr ", scientific(x, 2)); });
    add(metrics.tokens_per_s, [](double x) { return text(std::llround(x), " tok/s"); });
    add(metrics.tflops_per_device, [](double x) { return text(significant(x, 3), " TFLOP/s"); });
    const std::int64_t slices = metrics.expert_slices.value_or(1);
    const std::int64_t repeats = metrics.repeats.value_or(0);
    if (slices > 1 || repeats > 0) line += text("  expert_slices ", slices, "  repeats ", repeats);
    add(seconds_left, [](double x) { return text(human_time(x), " left"); });
    return line;
}

std::string validation_line(std::int64_t step, std::int64_t steps, double val_loss) {
    return text(step_label(step, steps), "  val_loss ", fixed(val_loss, 4), "  perplexity ",
                significant(std::exp(val_loss), 4));
}

std::vector<std::string> measure_lines(std::int64_t step, std::int64_t steps,
                                       std::string_view prefix,
                                       const std::vector<ReportedMeasure>& measures) {
    std::vector<std::string> lines;
    std::string of_layers;
    for (const ReportedMeasure& measure : measures) {
        if (measure.row->of == MeasureOf::layer || measure.row->of == MeasureOf::expert_layer) {
            of_layers += text("  ", prefix, measure.row->name, " ", over_layers(measure.numbers));
            continue;
        }
        std::string& line =
            lines.emplace_back(text(step_label(step, steps), "  ", prefix, measure.row->name));
        for (const MeasuredNumber& number : measure.numbers) {
            line += text(number.label.empty() ? "" : "  ", number.label, " ",
                         fixed(number.value.mean(), 4));
        }
    }
    if (!of_layers.empty()) lines.push_back(step_label(step, steps) + of_layers);
    return lines;
}

std::vector<std::string> task_lines(const TaskEvaluation& evaluation, std::int64_t steps) {
    std::vector<std::string> lines;
    std::string_view task;
    for (const TaskMetric& each : evaluation.metrics) {
        if (each.task != task) {
            task = each.task;
            lines.push_back(text(step_label(evaluation.step, steps), "  ", task));
        }
        lines.back() += text("  ", each.metric, " ", significant(each.value, 4));
        if (each.standard_error) lines.back() += text(" +- ", significant(*each.standard_error, 2));
    }
    return lines;
}

std::string progress_bar(std::string_view what, std::int64_t done, std::int64_t total,
                         std::optional<double> seconds_left, std::int64_t columns) {
    constexpr std::int64_t most = 24;
    constexpr std::int64_t least = 4;
    const auto share_of = [&](std::int64_t whole) { return total > 0 ? whole * done / total : 0; };
    const std::string percent = text(share_of(100));
    const std::string now = text(std::string(3 - std::min<std::size_t>(percent.size(), 3), ' '),
                                 percent, "%  ", what, " ", done, "/", total);
    std::string left = seconds_left ? text("  ", human_time(*seconds_left), " left") : "";
    const auto room = [&] { return columns - 1 - std::ssize(now + left + "[] "); };
    if (room() < least) left.clear();
    if (room() < least) return now.substr(0, static_cast<std::size_t>(columns - 1));
    const std::int64_t cells = std::min(room(), most);
    const std::int64_t filled = share_of(cells);
    return text("[", std::string(static_cast<std::size_t>(filled), '#'),
                std::string(static_cast<std::size_t>(cells - filled), '-'), "] ", now, left);
}

double seconds_left(double seconds_per_sample, const BatchSchedule& batch, std::int64_t steps,
                    std::int64_t step, std::int64_t samples) {
    const std::int64_t left =
        batch.samples_of(std::max<std::int64_t>(steps - step, 0), samples) - samples;
    return seconds_per_sample * static_cast<double>(left);
}

Console::Console(std::int64_t first_samples, std::int64_t steps, const BatchSchedule& batch)
    : first_samples_(first_samples),
      steps_(steps),
      batch_(batch),
      started_(Clock::now()),
      last_shown_() {}

/// From the mean time of all samples of this start; steps have fewer of them while the batch ramps
/// up. The first step is slower, because it sets up what later ones reuse, but soon hardly counts.
std::optional<double> Console::seconds_left(std::int64_t step, std::int64_t samples) const {
    if (samples <= first_samples_) return std::nullopt;
    const double seconds_per_sample =
        seconds_since(started_) / static_cast<double>(samples - first_samples_);
    return gptrain::seconds_left(seconds_per_sample, batch_, steps_, step, samples);
}

void Console::show(std::string_view what, std::int64_t done, std::int64_t total,
                   std::optional<double> seconds_left) {
    const Clock::time_point now = Clock::now();
    if (now - last_shown_ < std::chrono::milliseconds(100) && done < total) return;
    last_shown_ = now;
    show_status(done < total ? progress_bar(what, done, total, seconds_left, terminal_columns())
                             : "");
}

void Console::update(std::int64_t step, std::int64_t samples) {
    show("step", step, steps_, seconds_left(step, samples));
}

void Console::step(const StepMetrics& metrics) {
    const auto left = seconds_left(metrics.step, metrics.consumed_samples.value_or(0));
    print_line(step_line(metrics, steps_, left));
    for (const std::string& line : measure_lines(metrics.step, steps_, "", metrics.measures))
        print_line(line);
}

void Console::evaluating(std::int64_t done, std::int64_t total) {
    show("evaluating", done, total, std::nullopt);
}

void Console::validation(const Validation& validation) {
    print_line(validation_line(validation.step, steps_, *validation.val_loss));
    for (const std::string& line :
         measure_lines(validation.step, steps_, validation_prefix, validation.measures))
        print_line(line);
}

void Console::tasks(const TaskEvaluation& evaluation) {
    for (const std::string& line : task_lines(evaluation, steps_))
        print_line(line);
}

}  // namespace gptrain
