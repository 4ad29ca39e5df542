#include "base/nf4.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/bytes.h"
#include "base/parallel_for.h"

namespace gptrain {
namespace {

// The code is the number of bounds below x / scale.
constexpr std::array<float, 15> bounds = {
    -0.8480964004993439F,  -0.6106329262256622F,  -0.4599952697753906F,   -0.33967943489551544F,
    -0.23460740596055984F, -0.13791173323988914F, -0.045525018125772476F, 0.03979014977812767F,
    0.1202552504837513F,   0.2035212516784668F,   0.2920137718319893F,    0.3893125355243683F,
    0.5016634166240692F,   0.6427869200706482F,   0.8614784178118011F,
};

std::uint8_t code_of(float x) {
    std::size_t code = 0;
    for (const std::size_t step : {8, 4, 2, 1})
        if (x > bounds[code + step - 1]) code += step;
    return static_cast<std::uint8_t>(code);
}

float largest_of(std::span<const float> x) {
    float largest = 0;
    for (const float value : x) {
        if (!std::isfinite(value)) return std::numeric_limits<float>::quiet_NaN();
        largest = std::max(largest, std::abs(value));
    }
    return largest;
}

/// Codes of a block, whose number of elements is even.
void convert_block(std::span<const float> x, float scale, std::byte* codes) {
    const auto code = [&](float value) { return code_of(scale > 0 ? value / scale : 0); };
    for (std::size_t i = 0; i < x.size(); i += 2)
        codes[i / 2] = static_cast<std::byte>(code(x[i]) << 4 | code(x[i + 1]));
}

/// n + 1 points from 0.1 to 1, each rounded once, from the end that is closer.
std::vector<float> points(int n) {
    constexpr float begin = 0.1F;
    const float step = (1 - begin) / static_cast<float>(n);
    std::vector<float> result;
    for (int i = 0; i <= n; ++i) {
        const bool low = i < (n + 1) / 2;
        const double from = low ? begin : 1;
        result.push_back(static_cast<float>(from + double{step} * (low ? i : i - n)));
    }
    return result;
}

std::array<float, nf4_map_size> make_map() {
    std::array<float, nf4_map_size> map = {0, 1};
    std::size_t count = 2;
    for (int i = 0; i <= 6; ++i) {
        const std::vector<float> ends = points(1 << i);
        const auto power = static_cast<float>(std::pow(10.0, i - 6));
        for (std::size_t part = 0; part + 1 < ends.size(); ++part) {
            const float value = power * ((ends[part] + ends[part + 1]) / 2);
            map[count++] = value;
            map[count++] = -value;
        }
    }
    std::sort(map.begin(), map.end());
    return map;
}

/// The code of the map's value nearest to x; of two that are equally near, the lower one.
std::uint8_t nearest_in_map(float x) {
    const auto& map = nf4_scale_map();
    const auto above = std::lower_bound(map.begin(), map.end(), x);
    if (above == map.begin()) return 0;
    auto code = above - map.begin();
    if (above == map.end() || x <= (*above + *(above - 1)) * 0.5F) --code;
    return static_cast<std::uint8_t>(code);
}

float mean_of(std::span<const float> x) {
    double sum = 0;
    for (const float value : x)
        sum += value;
    return static_cast<float>(sum / static_cast<double>(x.size()));
}

std::vector<std::byte> bytes_of(std::span<const float> x) {
    const auto bytes = std::as_bytes(x);
    return {bytes.begin(), bytes.end()};
}

void set_scales(Nf4Bytes& to, std::vector<float> scales, bool nested) {
    if (!nested) {
        to.scales = bytes_of(scales);
        return;
    }
    const float offset = mean_of(scales);
    for (float& scale : scales)
        scale -= offset;
    const auto& map = nf4_scale_map();
    to.factors.assign(map.begin(), map.end());
    to.factors.push_back(offset);
    to.scales.resize(scales.size());
    const std::span<const float> all = scales;
    for (std::size_t begin = 0; begin < all.size(); begin += nf4_scale_block) {
        const auto block = all.subspan(
            begin, std::min(all.size() - begin, static_cast<std::size_t>(nf4_scale_block)));
        const float factor = largest_of(block);
        to.factors.push_back(factor);
        for (std::size_t i = 0; i < block.size(); ++i) {
            const float share = factor > 0 ? block[i] / factor : 0;
            to.scales[begin + i] = static_cast<std::byte>(nearest_in_map(share));
        }
    }
}

}  // namespace

const std::array<float, nf4_map_size>& nf4_scale_map() {
    static const std::array<float, nf4_map_size> map = make_map();
    return map;
}

float Nf4View::scale(std::int64_t block) const {
    if (!nested()) return value_at<float>(scales, block * std::int64_t{sizeof(float)});
    const Nf4Scales nested_scales = {.scales = nullptr,
                                     .codes = reinterpret_cast<const std::uint8_t*>(scales.data()),
                                     .factors = factors.data(),
                                     .part = {.blocks = blocks(), .row_blocks = blocks()}};
    return nested_scales(block);
}

void Nf4View::read(std::int64_t first, std::int64_t step, std::span<float> to) const {
    std::int64_t block = -1;
    float factor = 0;
    for (std::int64_t i = 0; i < std::ssize(to); ++i) {
        const std::int64_t at = first + i * step;
        if (at / nf4_block != block) {
            block = at / nf4_block;
            factor = scale(block);
        }
        const auto pair = std::to_integer<unsigned>(codes[static_cast<std::size_t>(at / 2)]);
        const unsigned code = at % 2 == 0 ? pair >> 4 : pair & 15U;
        to[static_cast<std::size_t>(i)] = nf4_values[code] * factor;
    }
}

Nf4Bytes to_nf4(std::span<const float> x, bool nested) {
    const std::int64_t elements = std::ssize(x);
    Nf4Bytes result;
    result.codes.resize(x.size() / 2);
    std::vector<float> scales(static_cast<std::size_t>((elements + nf4_block - 1) / nf4_block));
    const auto convert = [&](std::int64_t block) {
        const std::int64_t begin = block * nf4_block;
        const auto values =
            x.subspan(static_cast<std::size_t>(begin),
                      static_cast<std::size_t>(std::min(nf4_block, elements - begin)));
        const float scale = largest_of(values);
        scales[static_cast<std::size_t>(block)] = scale;
        convert_block(values, scale, result.codes.data() + begin / 2);
    };
    constexpr std::int64_t blocks_at_once = 1024;
    const std::int64_t blocks = std::ssize(scales);
    const std::int64_t pieces = (blocks + blocks_at_once - 1) / blocks_at_once;
    parallel_for(pieces, core_count(), [&](std::int64_t piece) {
        const std::int64_t end = std::min((piece + 1) * blocks_at_once, blocks);
        for (std::int64_t block = piece * blocks_at_once; block < end; ++block)
            convert(block);
    });
    set_scales(result, std::move(scales), nested);
    return result;
}

Nf4Bytes with_scales(const Nf4View& matrix, bool nested) {
    Nf4Bytes result;
    result.codes.assign(matrix.codes.begin(), matrix.codes.end());
    if (matrix.nested() == nested) {
        result.scales.assign(matrix.scales.begin(), matrix.scales.end());
        result.factors.assign(matrix.factors.begin(), matrix.factors.end());
        return result;
    }
    std::vector<float> scales;
    for (std::int64_t block = 0; block < matrix.blocks(); ++block)
        scales.push_back(matrix.scale(block));
    set_scales(result, std::move(scales), nested);
    return result;
}

}  // namespace gptrain
