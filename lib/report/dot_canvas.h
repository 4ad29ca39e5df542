// Drawing with dots on a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gptrain {

/// A picture of characters: Braille patterns, of 2 x 4 dots each, or plain ones with one dot each.
class DotCanvas {
public:
    /// The size in characters.
    DotCanvas(std::int64_t columns, std::int64_t rows, bool unicode);

    /// The size in dots.
    std::int64_t width() const { return columns_ * dots_x_; }
    std::int64_t height() const { return rows_ * dots_y_; }

    /// Sets a dot; x counts from the left, y from the top.
    void set(std::int64_t x, std::int64_t y);
    /// Sets the dots of a straight line.
    void line(std::int64_t x0, std::int64_t y0, std::int64_t x1, std::int64_t y1);

    /// A line of characters, counted from the top.
    std::string row(std::int64_t row) const;

private:
    std::int64_t columns_;
    std::int64_t rows_;
    bool unicode_;
    std::int64_t dots_x_;
    std::int64_t dots_y_;
    std::vector<bool> dots_;
};

}  // namespace gptrain
