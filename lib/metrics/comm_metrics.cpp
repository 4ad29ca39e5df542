#include "metrics/comm_metrics.h"

#include <algorithm>
#include <cmath>

namespace gptrain {

const CommMetric* find_axis(const std::vector<CommMetric>& comm, std::string_view axis) {
    const auto found = std::ranges::find(comm, axis, &CommMetric::axis);
    return found == comm.end() ? nullptr : &*found;
}

Axis reported_axis(Axis axis, const MeshShape& shape) {
    const SubAxis* part = find_sub_axis(axis);
    if (part != nullptr && axis != Axis::experts) return reported_axis(part->parent, shape);
    switch (axis) {
        case Axis::dp_cp:
        case Axis::tokens: return Axis::dp;
        case Axis::embedding_ends: return Axis::pp;
        case Axis::model: return shape.pipeline > 1 ? Axis::pp : Axis::tp;
        default: return axis;
    }
}

namespace {

/// True if several ranks of tp have the same experts.
bool copies_experts(const MeshShape& shape) {
    return shape.expert > 1 && group_size(Axis::expert_copies, shape) > 1;
}

bool connects(Axis axis, const MeshShape& shape) {
    switch (axis) {
        case Axis::tp: return shape.tensor > 1;
        case Axis::cp: return shape.context > 1;
        case Axis::dp: return shape.data * shape.context > 1 || copies_experts(shape);
        case Axis::experts: return shape.expert > 1;
        default: return shape.pipeline > 1;
    }
}

}  // namespace

void CommMetrics::add_step(const CommTotals::ByAxis& step) {
    for (std::size_t i = 0; i < step.size(); ++i) {
        const Axis reported = reported_axis(static_cast<Axis>(i), shape_);
        sums_[static_cast<std::size_t>(reported)] += step[i];
    }
    ++steps_;
}

std::vector<CommMetric> CommMetrics::take(const MpiSession& ranks) {
    std::vector<CommMetric> metrics;
    for (const Axis axis : reported_axes) {
        if (!connects(axis, shape_)) continue;
        const AxisTotal& sum = sums_[static_cast<std::size_t>(axis)];
        CommMetric metric = {.axis = name_of(axis), .bytes = ranks.max(sum.bytes) / steps_};
        const auto nanoseconds = static_cast<std::int64_t>(std::llround(sum.seconds * 1e9));
        const double longest = static_cast<double>(ranks.max(nanoseconds)) * 1e-9;
        if (timed_) metric.seconds = longest / static_cast<double>(steps_);
        metrics.push_back(metric);
    }
    sums_ = {};
    steps_ = 0;
    return metrics;
}

}  // namespace gptrain
