// One chart of a report as HTML: curves over steps as SVG, and a legend with their last values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/series.h"

namespace gptrain {

/// A curve. Pale curves are drawn behind the others: single steps, or steps that were done again.
struct Curve {
    enum class Style { line, pale, dots };
    std::string label;
    std::size_t colour = 0;  ///< counted from 0
    std::vector<Point> points;
    Style style = Style::line;
    bool in_legend = true;
};

/// Something that happened in a step, as a vertical line.
struct Mark {
    double step;
    bool fault = false;  ///< drawn in the colour of faults
    std::string label;   ///< shown by a pointer over it
};

struct Chart {
    std::string title;
    std::string unit;
    std::vector<Curve> curves;
    /// True if small changes are insignificant; the axis then does not zoom in on them.
    bool steady = false;
};

/// The range of steps and the marks that all charts of a page share.
struct ChartFrame {
    Range steps;
    std::vector<Mark> marks;
};

/// A `figure` element. Empty if no curve has a value that is known.
std::string to_html(const Chart& chart, const ChartFrame& frame);

}  // namespace gptrain
