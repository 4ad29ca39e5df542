// The common parts of all pictures: SVG files that need no other files, legible on a light or dark
// screen and on paper.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace gptrain {

using Rgb = std::array<int, 3>;  ///< 0 to 255

/// The start of a picture of this size in pixels: style sheet and background. The picture ends with
/// "</svg>". Classes: title, axis (centred text), number (small text on a colour), line, idle
/// (background of a row), event (white edge).
std::string svg_head(double width, double height);

/// Pixels with one digit after the point.
std::string pixels(double value);

std::string svg_escaped(std::string_view text);

/// "#7fb2e5", mixed with a share of white.
std::string svg_colour(const Rgb& rgb, double white = 0);

/// The distance between the marks of an axis: 1, 2 or 5 times a power of ten and at least `least`;
/// with the digits after the point that its labels need.
struct AxisStep {
    double step = 1;
    int digits = 0;
};
AxisStep axis_step(double least);

}  // namespace gptrain
