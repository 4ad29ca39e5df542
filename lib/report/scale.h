// The scale of an axis: the positions of values and marks.
#pragma once

#include <string>
#include <vector>

#include "report/series.h"

namespace gptrain {

struct Tick {
    double share;  ///< of the axis, from 0 to 1
    std::string label;
};

class Scale {
public:
    /// A scale over these values, linear or logarithmic (values above 0 only). A range that is
    /// empty or a single value is widened.
    Scale(Range values, bool logarithmic);

    /// Where a value is, from 0 to 1; a value outside of the range is at its end.
    double share(double value) const;
    double low() const { return range_.low; }
    double high() const { return range_.high; }
    bool logarithmic() const { return logarithmic_; }

    /// Marks at round values, about `count` of them, and at least `least` apart.
    std::vector<Tick> ticks(int count, double least = 0) const;

private:
    std::vector<Tick> linear_ticks(int count, double least) const;
    std::vector<Tick> log_ticks(int count) const;

    Range range_;
    bool logarithmic_;
};

/// A value with up to three digits and a prefix or an exponent: "0.554", "62.7k", "3e-4".
std::string short_number(double value);

/// True if most of the values would be a flat line on a linear axis: all are above 0, and the
/// largest is far above the median.
bool needs_log(std::vector<double> values);

}  // namespace gptrain
