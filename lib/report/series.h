// Curves of a report: points over steps, thinned for drawing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "report/run_log.h"

namespace gptrain {

struct Point {
    double step;
    double value;  ///< NaN: unknown, a gap in the curve
};

/// One value of a logged step.
using Metric = std::function<std::optional<double>(const StepMetrics&)>;

/// A metric by its member, such as &StepMetrics::loss.
Metric metric(std::optional<double> StepMetrics::*member);
Metric metric(std::optional<std::int64_t> StepMetrics::*member);

std::vector<Point> points_of(std::span<const StepMetrics> steps, const Metric& metric);
std::vector<Point> points_of(std::span<const Validation> validations);
/// The points of one metric of one task.
std::vector<Point> points_of(std::span<const TaskEvaluation> evaluations, std::string_view task,
                             std::string_view metric);

/// The smallest range that contains all values that are known; empty (low > high) if none is.
struct Range {
    double low = 1;
    double high = -1;

    bool empty() const { return low > high; }
    void add(double value);
    void add(const Range& other);
};

/// Splits `steps` into equal columns and keeps the first, lowest, highest and last point of each,
/// so that no peak is lost, or one gap if a column has no known value. `points` must be in
/// ascending order of steps. At most 4 x columns points remain.
std::vector<Point> thinned(std::span<const Point> points, const Range& steps, int columns);

}  // namespace gptrain
