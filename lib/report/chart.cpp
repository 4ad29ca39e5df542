#include "report/chart.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "planner/svg.h"
#include "report/html.h"
#include "report/scale.h"

namespace gptrain {
namespace {

// In the units of the picture, which are pixels on a narrow screen.
constexpr double chart_width = 420;
constexpr double chart_height = 220;
constexpr double plot_left = 48;
constexpr double plot_right = chart_width - 8;
constexpr double plot_top = 8;
constexpr double plot_bottom = chart_height - 22;
constexpr int curve_columns = 720;  // two a pixel: screens and paper have more than the picture
constexpr std::size_t most_dots = 60;

Range range_of_values(const Chart& chart) {
    Range range;
    for (const Curve& curve : chart.curves) {
        for (const Point& point : curve.points)
            range.add(point.value);
    }
    return range;
}

bool is_logarithmic(const Chart& chart) {
    std::vector<double> values;
    for (const Curve& curve : chart.curves) {
        for (const Point& point : curve.points)
            values.push_back(point.value);
    }
    return needs_log(std::move(values));
}

Range shown_range(const Chart& chart, bool logarithmic) {
    Range range = range_of_values(chart);
    if (logarithmic) return range;
    const double magnitude = std::max(std::fabs(range.low), std::fabs(range.high));
    const double height = range.high - range.low;
    const double least = chart.steady ? 0.5 * magnitude : 0;
    const double margin = std::max(0.04 * height, (least - height) / 2);
    return {range.low >= 0 ? std::max(0.0, range.low - margin) : range.low - margin,
            range.high + margin};
}

class Drawing {
public:
    Drawing(const Chart& chart, const ChartFrame& frame)
        : chart_(chart),
          frame_(frame),
          logarithmic_(is_logarithmic(chart)),
          steps_(frame.steps, false),
          values_(shown_range(chart, logarithmic_), logarithmic_) {}

    std::string draw() const;

private:
    double x(double step) const {
        return plot_left + (plot_right - plot_left) * steps_.share(step);
    }
    double y(double value) const {
        return plot_bottom - (plot_bottom - plot_top) * values_.share(value);
    }
    std::string svg() const;
    std::string axes() const;
    std::string marks() const;
    std::string curve(const Curve& curve) const;
    std::string dots(const Curve& curve, const std::vector<Point>& points) const;
    std::string legend() const;

    const Chart& chart_;
    const ChartFrame& frame_;
    bool logarithmic_;
    Scale steps_;
    Scale values_;
};

std::string Drawing::draw() const {
    const std::string scale = values_.logarithmic() ? ", logarithmic" : "";
    return text("<figure class=\"chart\">\n<figcaption>", html_escaped(chart_.title), " <small>",
                html_escaped(chart_.unit + scale), "</small></figcaption>\n", svg(), legend(),
                "</figure>\n");
}

std::string Drawing::svg() const {
    const Range values = range_of_values(chart_);
    std::string out =
        text("<svg class=\"plot\" role=\"img\" viewBox=\"0 0 ", chart_width, ' ', chart_height,
             "\" aria-label=\"", html_escaped(chart_.title), " from ", significant(values.low, 4),
             " to ", significant(values.high, 4), "\" data-left=\"", plot_left, "\" data-right=\"",
             plot_right, "\" data-first=\"", steps_.low(), "\" data-last=\"", steps_.high(),
             "\">\n", axes(), marks());
    for (const Curve::Style style : {Curve::Style::pale, Curve::Style::line, Curve::Style::dots}) {
        for (const Curve& each : chart_.curves) {
            if (each.style == style) out += curve(each);
        }
    }
    return out +
           text("<path class=\"cursor\" d=\"M0 ", plot_top, 'V', plot_bottom, "\"/>\n</svg>\n");
}

std::string Drawing::axes() const {
    std::string grid;
    std::string out;
    for (const Tick& tick : values_.ticks(7)) {
        const double at = plot_bottom - (plot_bottom - plot_top) * tick.share;
        grid += text('M', plot_left, ' ', pixels(at), 'H', plot_right);
        out += text("<text class=\"value\" x=\"", plot_left - 5, "\" y=\"", pixels(at + 4), "\">",
                    tick.label, "</text>\n");
    }
    for (const Tick& tick : steps_.ticks(5, 1)) {
        const double at = plot_left + (plot_right - plot_left) * tick.share;
        grid += text('M', pixels(at), ' ', plot_bottom, "v4");
        out += text("<text class=\"step\" x=\"", pixels(std::min(at, plot_right - 12)), "\" y=\"",
                    plot_bottom + 17, "\">", tick.label, "</text>\n");
    }
    return text("<path class=\"grid\" d=\"", grid, "\"/>\n", out);
}

/// One line for each pixel and kind, however many marks there are.
std::string Drawing::marks() const {
    std::map<std::pair<std::int64_t, bool>, std::string> labels;
    for (const Mark& mark : frame_.marks) {
        const auto at = static_cast<std::int64_t>(x(mark.step));
        std::string& label = labels[{at, mark.fault}];
        constexpr std::size_t longest = 400;
        if (label.size() < longest) label += (label.empty() ? "" : "; ") + mark.label;
    }
    std::string out;
    for (const auto& [place, label] : labels) {
        out += text("<path class=\"mark", place.second ? " fault" : "", "\" d=\"M", place.first,
                    ' ', plot_top, 'V', plot_bottom, "\"><title>", html_escaped(label),
                    "</title></path>\n");
    }
    return out;
}

std::string Drawing::curve(const Curve& curve) const {
    const std::vector<Point> points = thinned(curve.points, frame_.steps, curve_columns);
    std::string path;
    std::string steps;
    std::string values;
    bool drawing = false;
    for (std::size_t i = 0; i < points.size(); ++i) {
        const Point& point = points[i];
        if (std::isnan(point.value)) {
            drawing = false;
            continue;
        }
        path += text(drawing ? 'L' : 'M', pixels(x(point.step)), ' ', pixels(y(point.value)));
        // A lone point between two gaps is invisible without a line.
        const bool alone = !drawing && (i + 1 == points.size() || std::isnan(points[i + 1].value));
        if (alone) path += "h0.1";
        drawing = true;
        steps += text(steps.empty() ? "" : ",", significant(point.step, 17));
        values += text(values.empty() ? "" : ",", significant(point.value, 5));
    }
    if (path.empty()) return "";
    const std::string data =
        curve.in_legend ? text(" data-steps=\"", steps, "\" data-values=\"", values, '"') : "";
    return text("<path class=\"curve ", colour_class(curve.colour),
                curve.style == Curve::Style::pale ? " pale" : "", "\" d=\"", path, '"', data,
                "/>\n", dots(curve, points));
}

std::string Drawing::dots(const Curve& curve, const std::vector<Point>& points) const {
    const bool shown = curve.style == Curve::Style::dots || points.size() == 1;
    if (!shown || points.size() > most_dots) return "";
    std::string path;
    for (const Point& point : points) {
        if (!std::isnan(point.value))
            path += text('M', pixels(x(point.step)), ' ', pixels(y(point.value)), "h0.01");
    }
    return text("<path class=\"dots ", colour_class(curve.colour), "\" d=\"", path, "\"/>\n");
}

/// Five digits; a large number with all of its integer part.
std::string legend_number(double value) {
    constexpr double fits = 1e15;
    const double size = std::fabs(value);
    return size >= 1e5 && size < fits ? grouped(std::llround(value)) : significant(value, 5);
}

/// In the order of the curves' data, so that the script finds the entry of a curve.
std::string Drawing::legend() const {
    std::string keys;
    Range last_steps;
    for (const Curve::Style style : {Curve::Style::pale, Curve::Style::line, Curve::Style::dots}) {
        for (const Curve& each : chart_.curves) {
            if (each.style != style || !each.in_legend) continue;
            const auto last = std::find_if(each.points.rbegin(), each.points.rend(),
                                           [](const Point& p) { return std::isfinite(p.value); });
            if (last == each.points.rend()) continue;
            last_steps.add(last->step);
            keys += text(
                " <span class=\"key\"><svg class=\"swatch\" viewBox=\"0 0 18 8\" "
                "aria-hidden=\"true\"><path class=\"curve ",
                colour_class(each.colour), style == Curve::Style::pale ? " pale" : "",
                "\" d=\"M0 4H18\"/></svg>", html_escaped(each.label), " <b>",
                legend_number(last->value), "</b></span>");
        }
    }
    const bool one_step = last_steps.low == last_steps.high;
    return text("<p class=\"legend\">", keys, " <span class=\"at\">",
                one_step ? text("step ", fixed(last_steps.high, 0)) : "at the end",
                "</span></p>\n");
}

}  // namespace

std::string to_html(const Chart& chart, const ChartFrame& frame) {
    return range_of_values(chart).empty() ? "" : Drawing(chart, frame).draw();
}

}  // namespace gptrain
