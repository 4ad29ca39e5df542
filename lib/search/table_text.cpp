#include "search/table_text.h"

#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "base/text.h"

namespace gptrain {
namespace {

std::string blanks_after(std::string_view value, std::size_t width) {
    return std::string(width > value.size() ? width - value.size() : 0, ' ');
}

}  // namespace

std::string padded_left(std::string_view value, std::size_t width) {
    return blanks_after(value, width) + std::string(value);
}

std::string padded_right(std::string_view value, std::size_t width) {
    return std::string(value) + blanks_after(value, width);
}

std::string row_of_cells(std::span<const std::string> cells, std::span<const std::size_t> widths,
                         std::string_view last) {
    GPTRAIN_CHECK(cells.size() == widths.size());
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i)
        line += padded_left(cells[i], widths[i]);
    return text(line, "  ", last, "\n");
}

std::string decimals(double value, int digits) {
    const bool shows = value <= 0 || value >= std::pow(10.0, -digits) / 2;
    return shows ? fixed(value, digits) : significant(value, 2);
}

std::string plain_seconds(double seconds) {
    return seconds >= 0.1 ? fixed(seconds, 3) : significant(seconds, 3);
}

std::string gib(double bytes) {
    return fixed(bytes / static_cast<double>(std::int64_t{1} << 30), 1);
}

}  // namespace gptrain
