// Cells of the tables that a search prints.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace gptrain {

/// The value, padded in front with spaces to `width` characters; padded_right pads behind it.
std::string padded_left(std::string_view value, std::size_t width);
std::string padded_right(std::string_view value, std::size_t width);

/// A cell for each width, the value at its right end, then two spaces, `last` and a line break.
std::string row_of_cells(std::span<const std::string> cells, std::span<const std::size_t> widths,
                         std::string_view last);

/// The value with this many digits after the point, or with two significant ones if it is too small
/// to show any: "12.66", "0.0031".
std::string decimals(double value, int digits);

/// Seconds with three digits after the point, or with three significant ones if that shows more:
/// "12.660", "0.0351", "1.09e-05".
std::string plain_seconds(double seconds);

/// Bytes as GiB with one decimal, without the unit.
std::string gib(double bytes);

}  // namespace gptrain
