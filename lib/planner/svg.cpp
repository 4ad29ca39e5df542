#include "planner/svg.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace gptrain {
namespace {

constexpr std::string_view style_sheet = R"(<style>
text { font: 12px sans-serif; fill: #222 }
.title { font-size: 14px; font-weight: bold }
.axis { text-anchor: middle }
.number { font-size: 10px; fill: #111; text-anchor: middle }
.paper { fill: #fff }
.idle { fill: #eee }
.line { stroke: #888; fill: none }
.event { stroke: #fff; stroke-width: 0.6 }
@media (prefers-color-scheme: dark) {
text { fill: #ddd }
.number { fill: #111 }
.paper { fill: #1b1d21 }
.idle { fill: #2c2f36 }
}
</style>
)";

}  // namespace

std::string svg_head(double width, double height) {
    return text("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", pixels(width), "\" height=\"",
                pixels(height), "\" viewBox=\"0 0 ", pixels(width), ' ', pixels(height), "\">\n",
                style_sheet, "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n");
}

std::string pixels(double value) {
    return fixed(value, 1);
}

std::string svg_escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            default: out += c;
        }
    }
    return out;
}

std::string svg_colour(const Rgb& rgb, double white) {
    std::string out = "#";
    for (const int part : rgb) {
        const int value = part + static_cast<int>(white * (255 - part));
        for (const int digit : {value / 16, value % 16})
            out += "0123456789abcdef"[digit];
    }
    return out;
}

AxisStep axis_step(double least) {
    const double power = std::floor(std::log10(least));
    AxisStep axis = {.step = std::pow(10, power),
                     .digits = static_cast<int>(std::max(0.0, -power))};
    for (const double factor : {2.0, 2.5, 2.0}) {
        if (axis.step < least) axis.step *= factor;
    }
    return axis;
}

}  // namespace gptrain
