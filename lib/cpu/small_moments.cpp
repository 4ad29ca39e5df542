#include "cpu/small_moments.h"

#include <algorithm>
#include <cstring>

#include "base/dynamic8.h"
#include "base/stochastic_rounding.h"
#include "cpu/parallel.h"
#include "cpu/philox8.h"
#include "tensor/dtype_switch.h"
#include "tensor/shard_runs.h"

namespace gptrain::cpu {
namespace {

/// Elements that are updated at a time, in the first-level cache.
constexpr std::int64_t small_block = moment_block;

/// Eight more than needed: whole vectors are stored.
template <class T>
using SmallBlock = T[small_block + 8];

/// A dynamic map as vectors; lane d belongs to decade d.
struct DynamicVectors {
    alignas(32) float values[256] = {};  ///< of codes
    alignas(32) float factors[8] = {};
    alignas(32) float offsets[8] = {};
    alignas(32) std::int32_t last[8] = {};
    alignas(32) std::int32_t first[8] = {};
    DynamicMap map;
    bool with_sign;

    explicit constexpr DynamicVectors(bool sign) : map(dynamic_map(sign)), with_sign(sign) {
        for (int d = 0; d < DynamicMap::count; ++d) {
            factors[d] = map.decades[d].factor;
            offsets[d] = map.decades[d].offset;
            last[d] = map.decades[d].last;
            first[d] = map.decades[d].first;
        }
        for (std::int32_t code = 0; code < 256; ++code) {
            const std::int32_t index = sign ? code - DynamicMap::zero_with_sign : code;
            values[code] = index < 0 ? -map.value(-index) : map.value(index);
        }
    }

    /// The codes of x, whose magnitudes are at most 1.
    __m256i codes(Vec8 x) const {
        const __m256 sign_bit = _mm256_set1_ps(-0.0f);
        const Vec8 a = _mm256_andnot_ps(sign_bit, x.v);
        const auto above = [&](float limit) {
            return _mm256_castps_si256(_mm256_cmp_ps(a.v, _mm256_set1_ps(limit), _CMP_GT_OQ));
        };
        __m256i decade = _mm256_setzero_si256();
        for (int d = 1; d < DynamicMap::count; ++d)
            decade = _mm256_sub_epi32(decade, above(map.decades[d].lower));
        const auto of_decade = [&](const auto* table) {
            return _mm256_permutevar8x32_epi32(
                _mm256_load_si256(reinterpret_cast<const __m256i*>(table)), decade);
        };
        const Vec8 part = fma(a, _mm256_castsi256_ps(of_decade(factors)),
                              _mm256_castsi256_ps(of_decade(offsets)));
        const __m256i limited = _mm256_min_epi32(
            _mm256_max_epi32(_mm256_cvttps_epi32(part.v), _mm256_setzero_si256()), of_decade(last));
        __m256i index = _mm256_and_si256(_mm256_add_epi32(of_decade(first), limited), above(0.0f));
        const __m256i ones = above(map.one_above);
        if (!with_sign) return _mm256_sub_epi32(index, ones);
        const __m256i negative = _mm256_srai_epi32(_mm256_castps_si256(x.v), 31);
        index = _mm256_sub_epi32(index, _mm256_andnot_si256(negative, ones));
        index = _mm256_sub_epi32(_mm256_xor_si256(index, negative), negative);
        return _mm256_add_epi32(index, _mm256_set1_epi32(DynamicMap::zero_with_sign));
    }
};
constexpr DynamicVectors signed_map(true);
constexpr DynamicVectors unsigned_map(false);

void load_block(const float* from, std::int64_t count, float* to) {
    std::copy_n(from, count, to);
}
void load_block(const Bf16* from, std::int64_t count, float* to) {
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        load(from + i, Full()).store(to + i);
    for (; i < count; ++i)
        to[i] = to_float(from[i]);
}
/// `codes`: a whole block of them.
void load_codes(const DynamicVectors& map, const std::uint8_t* codes, float scale, float* to) {
    for (std::int64_t i = 0; i < small_block; i += 8) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i));
        const Vec8 values = _mm256_i32gather_ps(map.values, _mm256_cvtepu8_epi32(bytes), 4);
        (values * Vec8(scale)).store(to + i);
    }
}

/// Stores `count` codes and returns the scale. `x` is 0 from count on, to the end of the block.
float store_codes(const DynamicVectors& map, const float* x, std::int64_t count,
                  std::uint8_t* codes) {
    Vec8 largest(0.0f);
    for (std::int64_t i = 0; i < small_block; i += 8)
        largest = max(Vec8(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), Vec8::load(x + i).v)), largest);
    const float scale = largest.maximum();
    // A block of zeros has no scale to divide by.
    const Vec8 divisor(scale > 0 ? scale : 1.0f);
    for (std::int64_t i = 0; i < count; i += 8) {
        const __m256i wide = map.codes(Vec8::load(x + i) / divisor);
        const __m128i words =
            _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
        std::uint8_t bytes[16];
        _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), _mm_packus_epi16(words, words));
        std::memcpy(codes + i, bytes,
                    static_cast<std::size_t>(std::min<std::int64_t>(8, count - i)));
    }
    return scale;
}

/// to_bf16_stochastic of `count` values, with 16 bits of each word from `shift` on.
void store_rounded(const float* x, const std::uint32_t* words, int shift, std::int64_t count,
                   Bf16* to) {
    const __m256i exponent = _mm256_set1_epi32(0x7f800000);
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m256i bits = _mm256_castps_si256(Vec8::load(x + i).v);
        const __m256i word = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + i));
        const __m256i random = _mm256_and_si256(_mm256_srl_epi32(word, _mm_cvtsi32_si128(shift)),
                                                _mm256_set1_epi32(0xffff));
        const __m256i finite = _mm256_cmpgt_epi32(exponent, _mm256_and_si256(bits, exponent));
        const __m256i moved = _mm256_add_epi32(bits, _mm256_and_si256(random, finite));
        // Whatever is not finite is cut. NaNs of an update are quiet: their upper bits remain.
        const __m256i upper = _mm256_srli_epi32(moved, 16);
        _mm_storeu_si128(
            reinterpret_cast<__m128i*>(to + i),
            _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1)));
    }
    for (; i < count; ++i)
        to[i] = to_bf16_stochastic(x[i], words[i] >> shift & 0xffffu);
}

/// The random words of a tensor for one use.
class RoundingWords {
public:
    RoundingWords(const Shard& shard, const RoundedStep& rounded, RoundedUse use)
        : runs_(runs_of(shard)),
          key_(rounding_key(rounded.seed, shard.name)),
          step_(_mm256_set1_epi32(static_cast<int>(rounded.step))),
          use_(_mm256_set1_epi32(static_cast<int>(use))) {}

    /// Those of the box's elements [flat, flat + count).
    void draw(std::int64_t flat, std::int64_t count, std::uint32_t* out) const {
        while (count > 0) {
            const std::int64_t taken = std::min(count, runs_.length - flat % runs_.length);
            draw_run(runs_.index(flat), taken, out);
            flat += taken;
            out += taken;
            count -= taken;
        }
    }

private:
    /// Elements [begin, begin + count) of the whole tensor.
    void draw_run(std::int64_t begin, std::int64_t count, std::uint32_t* out) const {
        const std::int64_t end = begin + count;
        for (std::int64_t at = begin / 4 * 4; at < end; at += 32) {
            if (at >= begin && at + 32 <= end) {
                draw_words(at / 4, out + (at - begin));
                continue;
            }
            std::uint32_t words[32];
            draw_words(at / 4, words);
            const std::int64_t first = std::max(at, begin);
            const std::int64_t last = std::min(at + 32, end);
            std::copy(words + (first - at), words + (last - at), out + (first - begin));
        }
    }
    /// Those of eight Philox blocks.
    void draw_words(std::int64_t block, std::uint32_t* out) const {
        const std::int64_t low = block & 0xffffffff;
        __m256i high = _mm256_set1_epi32(static_cast<int>(block >> 32));
        // Lanes whose low word wraps around carry into the high one.
        for (int lane = 0; low + 7 > 0xffffffff && lane < 8; ++lane)
            reinterpret_cast<std::int32_t*>(&high)[lane] += low + lane > 0xffffffff ? 1 : 0;
        store_in_order(philox8({{counters_from(low), high, step_, use_}}, key_), out);
    }

    ShardRuns runs_;
    PhiloxKey key_;
    __m256i step_;
    __m256i use_;
};

/// A piece whose main parameters are of type Main, whose weights, if it has any apart, are of type
/// Weight, and whose moments are of type Moment.
template <class Main, class Weight, class Moment>
class SmallUpdate {
public:
    SmallUpdate(const AdamWPiece& piece, const AdamWStep& constants, const RoundedStep& rounded)
        : constants_(constants),
          decay_(piece.decay ? constants.decay : Vec8(1.0f)),
          count_(piece.main_param.elements()),
          flat_begin_(piece.shard.flat_begin),
          params_(piece.main_param.as<Main>()),
          grads_(piece.main_grad.as<float>()),
          weights_(pointer_or_null<Weight>(piece.weight)),
          averages_(piece.exp_avg.as<Moment>()),
          squares_(piece.exp_avg_sq.as<Moment>()),
          average_scales_(pointer_or_null<float>(piece.exp_avg_scales)),
          square_scales_(pointer_or_null<float>(piece.exp_avg_sq_scales)),
          moment_words_(piece.shard, rounded, RoundedUse::moments),
          weight_words_(piece.shard, rounded, RoundedUse::weights) {}

    void run() const {
        parallel_ranges(count_, 16, small_block, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t at = begin; at < end; at += small_block)
                update_block(at, std::min(small_block, end - at));
        });
    }

private:
    static constexpr bool coded = std::is_same_v<Moment, std::uint8_t>;

    void update_block(std::int64_t at, std::int64_t count) const {
        alignas(32) SmallBlock<float> p, g, m, v;
        alignas(32) SmallBlock<std::uint32_t> words = {};
        if (count < small_block) {
            for (float* values : {p, g, m, v})
                std::fill_n(values, small_block, 0.0f);
        }
        load_block(params_ + at, count, p);
        load_block(grads_ + at, count, g);
        if constexpr (coded) {
            load_codes(signed_map, averages_ + at, average_scales_[at / small_block], m);
            load_codes(unsigned_map, squares_ + at, square_scales_[at / small_block], v);
        } else {
            load_block(averages_ + at, count, m);
            load_block(squares_ + at, count, v);
        }
        for (std::int64_t i = 0; i < count; i += 8) {
            Vec8 average = Vec8::load(m + i);
            Vec8 square = Vec8::load(v + i);
            constants_.update(Vec8::load(g + i), Vec8::load(p + i), average, square, decay_)
                .store(p + i);
            average.store(m + i);
            square.store(v + i);
        }
        store_params(at, count, p, words);
        store_moments(at, count, m, v, words);
    }

    void store_params(std::int64_t at, std::int64_t count, const float* p,
                      std::uint32_t* words) const {
        if constexpr (std::is_same_v<Main, Bf16>) {
            weight_words_.draw(flat_begin_ + at, count, words);
            store_rounded(p, words, 0, count, params_ + at);
        } else {
            std::copy_n(p, count, params_ + at);
            if (weights_ == nullptr) return;
            for_vectors(0, count, [&](std::int64_t i, auto lanes) {
                store(weights_ + at + i, Vec8::load(p + i), lanes);
            });
        }
    }

    void store_moments(std::int64_t at, std::int64_t count, float* m, float* v,
                       std::uint32_t* words) const {
        if constexpr (coded) {
            // Behind the end an update may have left anything.
            std::fill(m + count, m + small_block, 0.0f);
            std::fill(v + count, v + small_block, 0.0f);
            average_scales_[at / small_block] = store_codes(signed_map, m, count, averages_ + at);
            square_scales_[at / small_block] = store_codes(unsigned_map, v, count, squares_ + at);
        } else if constexpr (std::is_same_v<Moment, Bf16>) {
            moment_words_.draw(flat_begin_ + at, count, words);
            store_rounded(m, words, 0, count, averages_ + at);
            store_rounded(v, words, 16, count, squares_ + at);
        } else {
            std::copy_n(m, count, averages_ + at);
            std::copy_n(v, count, squares_ + at);
        }
    }

    const AdamWStep& constants_;
    Vec8 decay_;
    std::int64_t count_;
    std::int64_t flat_begin_;
    Main* params_;
    const float* grads_;
    Weight* weights_;
    Moment* averages_;
    Moment* squares_;
    float* average_scales_;
    float* square_scales_;
    RoundingWords moment_words_;
    RoundingWords weight_words_;
};

/// Calls f(Moment{}).
void with_moments(DType dtype, const auto& f) {
    switch (dtype) {
        case DType::f32: f(float{}); break;
        case DType::bf16: f(Bf16{}); break;
        case DType::u8: f(std::uint8_t{}); break;
        default: fail(ExitCode::bug, "moments in ", name_of(dtype));
    }
}

}  // namespace

void update_small(const AdamWPiece& piece, const AdamWStep& constants, const RoundedStep& rounded) {
    with_moments(piece.exp_avg.dtype(), [&](auto moment) {
        using Moment = decltype(moment);
        if (piece.main_param.dtype() == DType::bf16) {
            SmallUpdate<Bf16, float, Moment>(piece, constants, rounded).run();
            return;
        }
        with_compute_type(
            piece.weight.empty() ? DType::f32 : piece.weight.dtype(), [&](auto weight) {
                SmallUpdate<float, decltype(weight), Moment>(piece, constants, rounded).run();
            });
    });
}

}  // namespace gptrain::cpu
