#include "report/scale.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/text.h"
#include "planner/svg.h"

namespace gptrain {
namespace {

constexpr double largest = 1e300;    // differences of larger values overflow
constexpr double smallest = 1e-200;  // smaller values count as 0

/// The common unit of the labels of an axis: they show value / unit, then the suffix.
struct LabelUnit {
    double unit = 1;
    std::string suffix;
};

LabelUnit label_unit(double magnitude) {
    static constexpr std::array<std::string_view, 5> prefixes = {"", "k", "M", "G", "T"};
    if (magnitude < smallest || (magnitude >= 0.01 && magnitude < 1e4)) return {};
    const double exponent = std::floor(std::log10(magnitude));
    if (magnitude >= 1e4 && magnitude < 1e15) {
        const double thousands = std::floor(exponent / 3);
        return {std::pow(1000, thousands),
                std::string(prefixes[static_cast<std::size_t>(thousands)])};
    }
    return {std::pow(10, exponent), text('e', static_cast<std::int64_t>(exponent))};
}

/// Wide enough that marks differ from each other.
Range widened(Range range) {
    if (range.empty()) return {0, 1};
    range.low = std::clamp(range.low, -largest, largest);
    range.high = std::clamp(range.high, -largest, largest);
    const double magnitude = std::max(std::fabs(range.low), std::fabs(range.high));
    if (magnitude < smallest) return {0, 1};
    if (range.high - range.low > 1e-9 * magnitude) return range;
    return {range.low - 0.1 * magnitude, range.high + 0.1 * magnitude};
}

}  // namespace

Scale::Scale(Range values, bool logarithmic)
    : range_(widened(values)), logarithmic_(logarithmic && range_.low >= smallest) {}

double Scale::share(double value) const {
    const double share = logarithmic_
                             ? std::log(value / range_.low) / std::log(range_.high / range_.low)
                             : (value - range_.low) / (range_.high - range_.low);
    return std::clamp(share, 0.0, 1.0);
}

std::vector<Tick> Scale::ticks(int count, double least) const {
    return logarithmic_ ? log_ticks(count) : linear_ticks(count, least);
}

std::vector<Tick> Scale::linear_ticks(int count, double least) const {
    const LabelUnit unit = label_unit(std::max(std::fabs(range_.low), std::fabs(range_.high)));
    const double low = range_.low / unit.unit;
    const double high = range_.high / unit.unit;
    const AxisStep axis = axis_step(std::max((high - low) / count, least / unit.unit));
    std::vector<Tick> ticks;
    for (double k = std::ceil(low / axis.step); k * axis.step <= high; ++k) {
        const std::string label = fixed(k * axis.step, axis.digits);
        ticks.push_back(
            {share(k * axis.step * unit.unit), k == 0 ? "0" : text(label, unit.suffix)});
    }
    return ticks;
}

std::vector<Tick> Scale::log_ticks(int count) const {
    const double first = std::floor(std::log10(range_.low));
    const double decades = std::log10(range_.high) - first;
    const double pitch = std::max(1.0, std::ceil(decades / count));
    std::vector<Tick> ticks;
    for (double decade = first; decade <= first + decades; decade += pitch) {
        for (const double factor : {1.0, 2.0, 5.0}) {
            if (factor > 1 && decades * 3 > count) break;
            const double value = factor * std::pow(10, decade);
            if (value < range_.low || value > range_.high) continue;
            ticks.push_back({share(value), short_number(value)});
        }
    }
    return ticks;
}

std::string short_number(double value) {
    const LabelUnit unit = label_unit(std::fabs(value));
    return text(significant(value / unit.unit, 3), unit.suffix);
}

bool needs_log(std::vector<double> values) {
    std::erase_if(values, [](double value) { return !std::isfinite(value); });
    if (values.empty()) return false;
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    if (*low < smallest) return false;
    const double most = *high;
    const auto middle = values.begin() + std::ssize(values) / 2;
    std::nth_element(values.begin(), middle, values.end());
    return most > 20 * *middle;
}

}  // namespace gptrain
