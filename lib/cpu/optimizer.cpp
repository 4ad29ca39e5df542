#include "cpu/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cpu/adamw_step.h"
#include "cpu/parallel.h"
#include "cpu/small_moments.h"
#include "cpu/step.h"
#include "cpu/values.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// Limit of the number of blocks of a tensor whose squares are summed separately. The number
/// depends on the tensor's size only.
constexpr std::int64_t max_blocks = 256;

double square_sum(const float* x, std::int64_t count) {
    __m256d low = _mm256_setzero_pd();
    __m256d high = _mm256_setzero_pd();
    for_vectors(0, count, [&](std::int64_t i, auto lanes) {
        const __m256 v = load(x + i, lanes).v;
        const __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
        const __m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        low = _mm256_fmadd_pd(a, a, low);
        high = _mm256_fmadd_pd(b, b, high);
    });
    alignas(32) double parts[4];
    _mm256_store_pd(parts, _mm256_add_pd(low, high));
    return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

double square_sum(const Tensor& tensor) {
    const std::int64_t count = tensor.elements();
    const auto* x = tensor.as<float>();
    const std::int64_t blocks = std::min(max_blocks, div_ceil(count, 4096));
    std::array<double, max_blocks> parts{};
    const auto begin_of = [&](std::int64_t block) { return count * block / blocks; };
    parallel_ranges(
        blocks, blocks == 0 ? 0 : count / blocks, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t block = begin; block < end; ++block) {
                parts[block] =
                    square_sum(x + begin_of(block), begin_of(block + 1) - begin_of(block));
            }
        });
    double sum = 0;
    for (std::int64_t block = 0; block < blocks; ++block)
        sum += parts[block];
    return sum;
}

template <class T>
void update(const AdamWPiece& piece, const AdamWStep& constants) {
    auto* param = piece.main_param.as<float>();
    const auto* grad = piece.main_grad.as<float>();
    auto* exp_avg = piece.exp_avg.as<float>();
    auto* exp_avg_sq = piece.exp_avg_sq.as<float>();
    T* weight = pointer_or_null<T>(piece.weight);
    const Vec8 decay = piece.decay ? constants.decay : Vec8(1.0f);
    parallel_ranges(piece.main_param.elements(), 8, 64, [&](std::int64_t begin, std::int64_t end) {
        for_vectors(begin, end, [&](std::int64_t i, auto lanes) {
            Vec8 m = load(exp_avg + i, lanes);
            Vec8 v = load(exp_avg_sq + i, lanes);
            const Vec8 p =
                constants.update(load(grad + i, lanes), load(param + i, lanes), m, v, decay);
            store(exp_avg + i, m, lanes);
            store(exp_avg_sq + i, v, lanes);
            store(param + i, p, lanes);
            if (weight != nullptr) store(weight + i, p, lanes);
        });
    });
}

}  // namespace

void run(const Clear& args) {
    for (const Tensor& tensor : args.values)
        run(Fill{.x = tensor, .value = 0});
}

void run(const SquareSum& args) {
    double sum = 0;
    for (const Tensor& tensor : args.addends)
        sum += square_sum(tensor);
    *args.total.as<double>() += sum;
}

void run(const FindNotFinite& args) {
    StepState& state = step_state(args.step);
    if (state.skip != Skip::not_finite) return;
    // In fp64 the squares of finite floats cannot overflow.
    const auto faulty =
        std::find_if(args.values.begin(), args.values.end(),
                     [](const Tensor& tensor) { return !std::isfinite(square_sum(tensor)); });
    if (faulty != args.values.end()) state.faulty_tensor = faulty - args.values.begin();
}

void run(const AdamW& args) {
    const StepState& state = step_state(args.step);
    const AdamWStep update_constants(args.constants, state);
    for (const AdamWPiece& piece : args.pieces) {
        if (state.skip != Skip::none) {
            if (!piece.weight.empty()) run(Cast{.to = piece.weight, .from = piece.main_param});
            continue;
        }
        if (is_small(piece)) {
            update_small(piece, update_constants, {.seed = args.seed, .step = state.step});
            continue;
        }
        const DType dtype = piece.weight.empty() ? DType::f32 : piece.weight.dtype();
        with_compute_type(dtype,
                          [&](auto type) { update<decltype(type)>(piece, update_constants); });
    }
}

}  // namespace gptrain::cpu
