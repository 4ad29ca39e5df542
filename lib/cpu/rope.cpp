#include "cpu/rope.h"

#include <cmath>

#include "cpu/fp8.h"
#include "cpu/parallel.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// Cosines and sines of eight angles, computed in double because positions are large.
struct Rotation {
    alignas(32) float cosine[8];
    alignas(32) float sine[8];

    Rotation(double position, const double* frequencies, double amplitude, std::int64_t count,
             bool inverse)
        : cosine{}, sine{} {
        for (std::int64_t i = 0; i < count; ++i) {
            const double angle = position * frequencies[i];
            cosine[i] = static_cast<float>(amplitude * std::cos(angle));
            const auto s = static_cast<float>(amplitude * std::sin(angle));
            sine[i] = inverse ? -s : s;
        }
    }
};

template <class T>
void rotate(const Rope& args, const double* frequencies) {
    const std::int64_t length = args.x.size(1);
    const std::int64_t heads = args.x.size(2);
    const std::int64_t half = args.x.size(3) / 2;
    const auto* positions = args.positions.as<std::int32_t>();
    T* x = args.x.as<T>();
    const double amplitude = args.angles().amplitude();
    const auto rotate_row = [&](std::int64_t row) {
        T* first_head = x + row / length * args.x.stride(0) + row % length * args.x.stride(1);
        for_vectors(0, half, [&](std::int64_t i, auto lanes) {
            const Rotation turn(positions[row], frequencies + i, amplitude,
                                std::min<std::int64_t>(8, half - i), args.inverse);
            const Vec8 cosine = Vec8::load(turn.cosine);
            const Vec8 sine = Vec8::load(turn.sine);
            for (std::int64_t head = 0; head < heads; ++head) {
                T* low = first_head + head * args.x.stride(2) + i;
                T* high = low + half;
                const Vec8 a = load(low, lanes);
                const Vec8 b = load(high, lanes);
                store(low, a * cosine - b * sine, lanes);
                store(high, b * cosine + a * sine, lanes);
            }
        });
    };
    parallel_ranges(args.x.size(0) * length, (heads + 32) * half, 1,
                    [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t row = begin; row < end; ++row)
                            rotate_row(row);
                    });
}

}  // namespace

void run(const Rope& args, Scratch& scratch) {
    const std::int64_t dim = args.x.size(3);
    auto* frequencies = scratch.take<double>(dim / 2);
    const RopeAngles angles = args.angles();
    for (std::int64_t i = 0; i < dim / 2; ++i)
        frequencies[i] = angles.frequency(i);
    with_compute_type(args.x.dtype(),
                      [&](auto type) { rotate<decltype(type)>(args, frequencies); });
    if (!args.amax.empty()) run(UpdateAmax{.x = rows_of_heads(args.x), .amax = args.amax});
}

std::int64_t rope_scratch_bytes(std::int64_t head_dim) {
    return Scratch::bytes_of<double>(head_dim / 2);
}

}  // namespace gptrain::cpu
