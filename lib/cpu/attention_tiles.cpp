#include "cpu/attention_tiles.h"

namespace gptrain::cpu {
namespace {

/// Transposes an 8 x 8 block.
void transpose8(const float* from, std::int64_t from_row, float* to, std::int64_t to_row) {
    __m256 pairs[8], quads[8];
    for (int i = 0; i < 8; i += 2) {
        const Vec8 a = Vec8::load(from + i * from_row);
        const Vec8 b = Vec8::load(from + (i + 1) * from_row);
        pairs[i] = _mm256_unpacklo_ps(a.v, b.v);
        pairs[i + 1] = _mm256_unpackhi_ps(a.v, b.v);
    }
    for (int i = 0; i < 8; i += 4) {
        quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
        quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
        quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
        quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
        _mm256_storeu_ps(to + i * to_row, _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * to_row,
                         _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31));
    }
}

/// factors [keys][tile_size] = the dropout factors of a pair of tiles, whose keys start at position
/// key_position. The positions of the queries are counted from q_begin.
void draw_factors(const DropoutMask& mask, const QueryTile& at, std::int64_t q_begin,
                  std::int64_t key_position, const ScoreTile& tile, float* factors) {
    const std::int64_t end = key_position + tile.keys;
    for (std::int64_t key = key_position / 4 * 4; key < end; key += 4) {
        for (std::int64_t i = 0; i < tile.queries; i += Vec8::size) {
            const DropoutMask::Keys drawn = mask.keys(at.b, q_begin + at.begin + i, at.head, key);
            for (std::int64_t j = 0; j < 4; ++j) {
                const std::int64_t row = key + j - key_position;
                if (row < 0 || row >= tile.keys) continue;
                drawn.factors[j].store(factors + row * tile_size + i);
            }
        }
    }
}

}  // namespace

// Elements of packed operands are pairs, which are as large as a float: rows and columns of those
// are exchanged.
TileOperand transposed_operand(const TileOperand& left, std::int64_t count, float* memory) {
    const auto* tile = static_cast<const float*>(left.data);
    const std::int64_t length = left.row;
    const std::int64_t whole = count / 8 * 8;
    for (std::int64_t i = 0; i < whole; i += 8) {
        for (std::int64_t d = 0; d < length; d += 8)
            transpose8(tile + i * length + d, length, memory + d * tile_size + i, tile_size);
    }
    const TileOperand transposed = {memory, 0, tile_size};
    if (whole == tile_size) return transposed;
    for (std::int64_t d = 0; d < length; ++d) {
        float* row = memory + d * tile_size;
        for (std::int64_t i = whole; i < count; ++i)
            row[i] = tile[i * length + d];
        std::fill(row + count, row + tile_size, 0.0f);
    }
    return transposed;
}

KeyRange keys_seen(const AttentionForward& args, std::int64_t b, std::int64_t i) {
    std::int64_t begin = 0;
    if (!args.first_visible.empty()) {
        const auto* first = args.first_visible.as<std::int32_t>();
        begin = std::max<std::int64_t>(0, first[b * args.q.size(1) + i] - args.k_begin);
    }
    return {begin, std::min(args.k.size(1), args.q_begin + i + 1 - args.k_begin)};
}

VisibleKeys::VisibleKeys(const AttentionForward& args, std::int64_t b, std::int64_t begin,
                         std::int64_t count) {
    std::int64_t first_of_all = args.k.size(1);
    for (std::int64_t i = 0; i < tile_size; ++i) {
        first_[i] = 0;
        last_[i] = -1;
        if (i >= count) continue;
        const KeyRange seen = keys_seen(args, b, begin + i);
        first_[i] = seen.begin;
        last_[i] = seen.end - 1;
        if (first_[i] > last_[i]) continue;
        first_of_all = std::min(first_of_all, first_[i]);
        end_ = std::max(end_, last_[i] + 1);
    }
    begin_ = std::min(first_of_all, end_) / tile_size * tile_size;
}

void VisibleKeys::mask(std::int64_t key, ScoreTile& tile) {
    bool all = true;
    for (std::int64_t i = 0; i < tile.queries; ++i) {
        const std::int64_t first = std::clamp<std::int64_t>(first_[i] - key, 0, tile_size);
        const std::int64_t last = std::clamp<std::int64_t>(last_[i] - key, -1, tile_size);
        all = all && first == 0 && last >= tile.keys - 1;
        first_in_tile_[i] = static_cast<float>(first);
        last_in_tile_[i] = static_cast<float>(last);
    }
    tile.first = all ? nullptr : first_in_tile_;
    tile.last = all ? nullptr : last_in_tile_;
}

ScoreTile score_tile(const AttentionForward& args, const DropoutMask& mask, const QueryTile& at,
                     VisibleKeys& visible, std::int64_t key, float* scores, float* factors) {
    ScoreTile tile = {.scores = scores,
                      .keys = std::min(tile_size, visible.end() - key),
                      .queries = round_up(at.count, tile_unit),
                      .first = nullptr,
                      .last = nullptr,
                      .dropout = nullptr};
    visible.mask(key, tile);
    if (mask.on()) {
        draw_factors(mask, at, args.q_begin, args.k_begin + key, tile, factors);
        tile.dropout = factors;
    }
    return tile;
}

ScoreChange score_change(const AttentionForward& args, const QueryTile& at, std::int64_t key,
                         float* slopes) {
    const std::int64_t distance = args.q_begin + at.begin - args.k_begin - key;
    return {.softcap = args.softcap,
            .slope = args.alibi.on() ? args.alibi.slope(at.head) : 0,
            .distance = static_cast<float>(distance),
            .slopes = slopes};
}

}  // namespace gptrain::cpu
