#include "report/dot_canvas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace gptrain {

DotCanvas::DotCanvas(std::int64_t columns, std::int64_t rows, bool unicode)
    : columns_(columns),
      rows_(rows),
      unicode_(unicode),
      dots_x_(unicode ? 2 : 1),
      dots_y_(unicode ? 4 : 1),
      dots_(static_cast<std::size_t>(width() * height())) {}

void DotCanvas::set(std::int64_t x, std::int64_t y) {
    if (x < 0 || x >= width() || y < 0 || y >= height()) return;
    dots_[static_cast<std::size_t>(y * width() + x)] = true;
}

void DotCanvas::line(std::int64_t x0, std::int64_t y0, std::int64_t x1, std::int64_t y1) {
    const std::int64_t count = std::max({std::abs(x1 - x0), std::abs(y1 - y0), std::int64_t{1}});
    for (std::int64_t i = 0; i <= count; ++i) {
        const double share = static_cast<double>(i) / static_cast<double>(count);
        set(x0 + std::llround(share * static_cast<double>(x1 - x0)),
            y0 + std::llround(share * static_cast<double>(y1 - y0)));
    }
}

std::string DotCanvas::row(std::int64_t row) const {
    // Bits of the dots of a Braille pattern, by y and x (Unicode, block 2800).
    static constexpr std::array<std::array<unsigned, 2>, 4> bits = {
        {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    std::string out;
    for (std::int64_t column = 0; column < columns_; ++column) {
        unsigned pattern = 0;
        for (std::int64_t y = 0; y < dots_y_; ++y) {
            for (std::int64_t x = 0; x < dots_x_; ++x) {
                const std::int64_t dot = (row * dots_y_ + y) * width() + column * dots_x_ + x;
                if (dots_[static_cast<std::size_t>(dot)])
                    pattern |= bits[static_cast<std::size_t>(y)][static_cast<std::size_t>(x)];
            }
        }
        if (pattern == 0) {
            out += ' ';
        } else if (!unicode_) {
            out += '*';
        } else {
            out += {'\xE2', static_cast<char>(0xA0 | (pattern >> 6)),
                    static_cast<char>(0x80 | (pattern & 0x3F))};
        }
    }
    return out;
}

}  // namespace gptrain
