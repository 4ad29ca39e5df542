#include "report/watch_view.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/text.h"
#include "base/utf8.h"
#include "metrics/console.h"
#include "report/dot_canvas.h"
#include "report/figures.h"
#include "report/scale.h"
#include "report/series.h"

namespace gptrain {
namespace {

using Lines = std::vector<std::string>;

constexpr std::int64_t label_columns = 8;  // left of a chart
constexpr std::int64_t least_chart_rows = 5;
constexpr std::int64_t most_event_rows = 4;

/// One line without control characters, of at most this many characters.
std::string fitted(std::string_view words, std::int64_t columns) {
    std::string out;
    for (const char c : without_controls(words)) {
        if (begins_character(c) && columns-- <= 0) break;
        out += c == '\n' || c == '\t' ? ' ' : c;
    }
    return out;
}

/// A line with as many of the fields as fit.
std::string line_of(const Lines& fields, std::int64_t columns) {
    std::string line;
    for (const std::string& field : fields) {
        const std::string longer = line.empty() ? field : text(line, "  ", field);
        if (count_characters(longer) <= columns) line = longer;
    }
    return line;
}

std::string right_aligned(std::string_view words, std::int64_t columns) {
    const auto width = static_cast<std::size_t>(columns);
    return std::string(width - std::min(width, words.size()), ' ') + std::string(words);
}

struct WatchChart {
    std::string_view title;
    std::vector<Point> points;
    std::vector<Point> second = {};  ///< drawn as dots
};

Range values_of(const WatchChart& chart) {
    Range range;
    for (const Point& point : chart.points)
        range.add(point.value);
    for (const Point& point : chart.second)
        range.add(point.value);
    return range;
}

/// The title, then `rows` lines with the curve, the largest value at the top left and the smallest
/// at the bottom left.
Lines draw(const WatchChart& chart, const Range& steps, std::int64_t columns, std::int64_t rows,
           bool unicode) {
    DotCanvas canvas(columns - label_columns - 1, rows, unicode);
    const Range values = values_of(chart);
    const Scale x_scale(steps, false);
    const Scale y_scale(values, false);
    const auto x = [&](double step) {
        return std::llround(x_scale.share(step) * static_cast<double>(canvas.width() - 1));
    };
    const auto y = [&](double value) {
        return std::llround((1 - y_scale.share(value)) * static_cast<double>(canvas.height() - 1));
    };
    const std::vector<Point> points =
        thinned(chart.points, steps, static_cast<int>(canvas.width()));
    for (std::size_t i = 0; i < points.size(); ++i) {
        if (std::isnan(points[i].value)) continue;
        const bool begins = i == 0 || std::isnan(points[i - 1].value);
        const Point& from = points[begins ? i : i - 1];
        canvas.line(x(from.step), y(from.value), x(points[i].step), y(points[i].value));
    }
    for (const Point& point : chart.second) {
        if (std::isnan(point.value)) continue;
        canvas.line(x(point.step) - 1, y(point.value), x(point.step) + 1, y(point.value));
    }
    Lines lines = {right_aligned("", label_columns + 1) + std::string(chart.title)};
    for (std::int64_t row = 0; row < rows; ++row) {
        const std::string label = row == 0          ? short_number(values.high)
                                  : row == rows - 1 ? short_number(values.low)
                                                    : "";
        lines.push_back(right_aligned(label, label_columns) + ' ' + canvas.row(row));
    }
    return lines;
}

/// At the speed of the last logged steps.
std::optional<double> time_left(const StepMetrics& last, const TrainingSpec& training) {
    constexpr std::int64_t most = std::int64_t{1} << 60;  // sums of a few do not overflow
    const std::int64_t samples = last.consumed_samples.value_or(-1);
    const bool known = samples >= 0 && samples < most && training.global_batch_size &&
                       last.tokens_per_s && *last.tokens_per_s > 0;
    if (known) {
        return seconds_left(static_cast<double>(training.seq_length) / *last.tokens_per_s,
                            {*training.global_batch_size, training.rampup}, training.steps,
                            last.step, samples);
    }
    if (!last.step_time_s) return std::nullopt;
    return *last.step_time_s * static_cast<double>(training.steps - last.step);
}

std::string progress_line(const WatchedRun& run, std::int64_t columns) {
    const StepMetrics& last = run.log.steps.back();
    const std::int64_t step = std::max<std::int64_t>(last.step, 0);
    if (run.spec == nullptr) return text("step ", grouped(step));
    const std::int64_t steps = run.spec->training.steps;
    if (step >= steps) return text("finished: step ", step, '/', steps);
    return progress_bar("step", step, steps, time_left(last, run.spec->training), columns);
}

/// The newest values.
Lines value_fields(const RunLog& log) {
    const StepMetrics& last = log.steps.back();
    Lines fields;
    const auto add = [&](std::string_view name, const std::optional<double>& value,
                         const auto& written) {
        if (value) fields.push_back(text(name, ' ', written(*value)));
    };
    const auto four = [](double value) { return significant(value, 4); };
    add("mean_loss", last.mean_loss ? last.mean_loss : last.loss, loss_text);
    if (!log.validations.empty()) add("val_loss", log.validations.back().val_loss, loss_text);
    add("grad_norm", last.grad_norm, four);
    add("lr", last.lr, [](double value) { return scientific(value, 2); });
    if (last.tokens_per_s) fields.push_back(speed_text(*last.tokens_per_s));
    if (log.time_spent.sum() > 0)
        fields.push_back(text("goodput ", fixed(100 * log.time_spent.goodput(), 1), " %"));
    return fields;
}

/// The first metric of each task that was measured last.
Lines task_fields(const RunLog& log) {
    Lines fields;
    std::string_view task;
    for (const TaskMetric& each : log.tasks.back().metrics) {
        if (each.task == task) continue;
        task = each.task;
        fields.push_back(text(task, ' ', each.metric, ' ', significant(each.value, 4)));
    }
    return fields;
}

Lines event_lines(const RunLog& log) {
    Lines lines;
    const std::int64_t count = std::ssize(log.events);
    for (std::int64_t i = std::max<std::int64_t>(0, count - most_event_rows); i < count; ++i) {
        const RunEvent& event = log.events[static_cast<std::size_t>(i)];
        lines.push_back(text("step ", event.step, ": ", describe(event)));
    }
    return lines;
}

std::vector<WatchChart> watch_charts(const RunLog& log) {
    const Metric loss = [](const StepMetrics& metrics) {
        return metrics.mean_loss ? metrics.mean_loss : metrics.loss;
    };
    std::vector<WatchChart> charts = {
        {"loss (bars: validation)", points_of(log.steps, loss), points_of(log.validations)},
        {"gradient norm", points_of(log.steps, metric(&StepMetrics::grad_norm))},
        {"tokens/s", points_of(log.steps, metric(&StepMetrics::tokens_per_s))}};
    std::erase_if(charts, [](const WatchChart& chart) { return values_of(chart).empty(); });
    return charts;
}

}  // namespace

std::vector<std::string> watch_view(const WatchedRun& run, const TerminalSize& size) {
    Lines lines = {run.label};
    Lines events = event_lines(run.log);
    if (run.log.steps.empty()) {
        lines.emplace_back("no step is logged yet");
    } else {
        lines.push_back(progress_line(run, size.columns));
        lines.push_back(line_of(value_fields(run.log), size.columns));
        if (!run.log.tasks.empty()) lines.push_back(line_of(task_fields(run.log), size.columns));
        Range steps;
        steps.add(static_cast<double>(run.log.steps.front().step));
        steps.add(static_cast<double>(run.log.steps.back().step));
        const std::vector<WatchChart> charts = watch_charts(run.log);
        // Each chart has a title. The last line stays empty for the cursor.
        const std::int64_t room = size.rows - 1 - std::ssize(lines) - std::ssize(events);
        const std::int64_t count =
            std::min<std::int64_t>(std::ssize(charts), room / (least_chart_rows + 1));
        const bool wide = size.columns > label_columns + 10;
        for (std::int64_t i = 0; i < count && wide; ++i) {
            for (std::string& line : draw(charts[static_cast<std::size_t>(i)], steps, size.columns,
                                          room / count - 1, size.unicode))
                lines.push_back(std::move(line));
        }
    }
    lines.insert(lines.end(), events.begin(), events.end());
    lines.resize(static_cast<std::size_t>(
        std::clamp<std::int64_t>(std::ssize(lines), 0, std::max<std::int64_t>(size.rows - 1, 0))));
    for (std::string& line : lines)
        line = fitted(line, size.columns);
    return lines;
}

}  // namespace gptrain
