#include "report/series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace gptrain {
namespace {

constexpr double no_value = std::numeric_limits<double>::quiet_NaN();

/// The points of one column that remain.
class ColumnPoints {
public:
    explicit ColumnPoints(const Point& first_point) : first_point_(first_point) {}

    void add(const Point& point) {
        if (!std::isfinite(point.value)) return;
        if (!any_) {
            kept_.fill(point);
            any_ = true;
        }
        if (point.value < kept_[low].value) kept_[low] = point;
        if (point.value > kept_[high].value) kept_[high] = point;
        kept_[last] = point;
    }

    void move_to(std::vector<Point>& out) {
        if (!any_) return out.push_back({first_point_.step, no_value});
        std::stable_sort(kept_.begin(), kept_.end(),
                         [](const Point& a, const Point& b) { return a.step < b.step; });
        for (std::size_t i = 0; i < kept_.size(); ++i) {
            if (i == 0 || kept_[i].step != kept_[i - 1].step) out.push_back(kept_[i]);
        }
    }

private:
    enum Kept : std::size_t { first, low, high, last, count };
    Point first_point_;
    std::array<Point, count> kept_{};
    bool any_ = false;
};

}  // namespace

Metric metric(std::optional<double> StepMetrics::*member) {
    return [member](const StepMetrics& metrics) { return metrics.*member; };
}

Metric metric(std::optional<std::int64_t> StepMetrics::*member) {
    return [member](const StepMetrics& metrics) -> std::optional<double> {
        const auto& value = metrics.*member;
        return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
    };
}

std::vector<Point> points_of(std::span<const StepMetrics> steps, const Metric& metric) {
    std::vector<Point> points;
    points.reserve(steps.size());
    for (const StepMetrics& step : steps)
        points.push_back({static_cast<double>(step.step), metric(step).value_or(no_value)});
    return points;
}

std::vector<Point> points_of(std::span<const Validation> validations) {
    std::vector<Point> points;
    for (const Validation& each : validations)
        points.push_back({static_cast<double>(each.step), each.val_loss.value_or(no_value)});
    return points;
}

std::vector<Point> points_of(std::span<const TaskEvaluation> evaluations, std::string_view task,
                             std::string_view metric) {
    std::vector<Point> points;
    for (const TaskEvaluation& each : evaluations) {
        const TaskMetric* found = find_metric(each.metrics, task, metric);
        points.push_back({static_cast<double>(each.step), found ? found->value : no_value});
    }
    return points;
}

void Range::add(double value) {
    if (!std::isfinite(value)) return;
    if (empty()) {
        low = high = value;
        return;
    }
    low = std::min(low, value);
    high = std::max(high, value);
}

void Range::add(const Range& other) {
    if (other.empty()) return;
    add(other.low);
    add(other.high);
}

std::vector<Point> thinned(std::span<const Point> points, const Range& steps, int columns) {
    const double width = (steps.high - steps.low) / columns;
    const auto column_of = [&](const Point& point) {
        return width > 0 ? std::floor((point.step - steps.low) / width) : 0;
    };
    std::vector<Point> out;
    for (std::size_t begin = 0; begin < points.size();) {
        const double at = column_of(points[begin]);
        ColumnPoints column(points[begin]);
        for (; begin < points.size() && column_of(points[begin]) == at; ++begin)
            column.add(points[begin]);
        column.move_to(out);
    }
    return out;
}

}  // namespace gptrain
