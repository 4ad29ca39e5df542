// 8-bit moments on every backend, to the bit those of an independent implementation
// (make_moments_fixture.py), and the properties of stochastic rounding.
#include <bit>
#include <cmath>

#include "backends.h"
#include "base/dynamic8.h"
#include "base/stochastic_rounding.h"
#include "catch.h"
#include "expected_moments.h"
#include "op_case.h"

namespace gptrain {
namespace {

std::string hex_of(const HostTensor& codes, std::int64_t count) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string hex;
    for (std::int64_t i = 0; i < count; ++i) {
        const auto code = static_cast<std::size_t>(codes[i]);
        hex += digits[code / 16];
        hex += digits[code % 16];
    }
    return hex;
}

template <std::size_t n>
void check_words(const HostTensor& got, const std::uint32_t (&expected)[n]) {
    for (std::size_t i = 0; i < n; ++i) {
        CAPTURE(i);
        const auto value = static_cast<float>(got[static_cast<std::int64_t>(i)]);
        CHECK(std::bit_cast<std::uint32_t>(value) == expected[i]);
    }
}

/// As in the generator.
double grad(std::int64_t i, std::int64_t step) {
    const auto whole = static_cast<double>((i * 7919 + step * 104729) % 2003 - 1001);
    return i % 7 == 0 ? 0 : std::ldexp(whole, -static_cast<int>(10 + 4 * (i % 5)));
}

}  // namespace

TEST_CASE("8-bit moments are those of an independent implementation") {
    constexpr std::int64_t count = expected::moment_count;
    constexpr std::int64_t blocks = (count + moment_block - 1) / moment_block;
    for (const auto& backend : built_backends()) {
        INFO(backend->name());
        ScratchMemory scratch(*backend);
        backend->use_scratch(scratch.take(backend->scratch_bytes({})));
        const DeviceTensor param(*backend,
                                 HostTensor(DType::f32, {count}, [](std::int64_t i, PhiloxKey) {
                                     return static_cast<double>(i % 101 - 50) / 64;
                                 }));
        const HostTensor no_codes(DType::u8, {blocks * moment_block}, constant(0));
        const HostTensor no_scales(DType::f32, {blocks}, constant(0));
        const DeviceTensor averages(*backend, no_codes);
        const DeviceTensor squares(*backend, no_codes);
        const DeviceTensor average_scales(*backend, no_scales);
        const DeviceTensor square_scales(*backend, no_scales);
        for (std::int64_t step = 1; step <= expected::moment_steps; ++step) {
            StepState state = initial_step_state(1);
            state.updates = step;
            state.learning_rate = 0.013;
            state.grad_factor = 0.375;
            const DeviceTensor state_memory(*backend, to_host(state));
            const DeviceTensor gradient(
                *backend, HostTensor(DType::f32, {count},
                                     [&](std::int64_t i, PhiloxKey) { return grad(i, step); }));
            const AdamWPiece piece = {.main_param = param.tensor(),
                                      .main_grad = gradient.tensor(),
                                      .exp_avg = averages.tensor(),
                                      .exp_avg_sq = squares.tensor(),
                                      .weight = {},
                                      .decay = true,
                                      .exp_avg_scales = average_scales.tensor(),
                                      .exp_avg_sq_scales = square_scales.tensor(),
                                      .shard = Shard::whole("w", {count})};
            backend->run(AdamW{.pieces = std::span(&piece, 1),
                               .constants = {0.87, 0.96, 1e-6, 0.2},
                               .step = {state_memory.tensor(), {}, 0}});
            backend->synchronize();
        }
        CHECK(hex_of(averages.download(), count) == expected::averages);
        CHECK(hex_of(squares.download(), count) == expected::squares);
        check_words(average_scales.download(), expected::average_scales);
        check_words(square_scales.download(), expected::square_scales);
        check_words(param.download(), expected::params);
    }
}

TEST_CASE("stochastic rounding is exact on average, and keeps what bf16 holds") {
    // 1 + n / 2^16 lies between 1 and 1 + 2^-7, so n of 2^9 draws go up.
    const std::uint32_t one = std::bit_cast<std::uint32_t>(1.0f);
    for (const std::uint32_t below : {0u, 1u, 0x7fffu, 0x8000u, 0xffffu}) {
        std::uint32_t up = 0;
        for (std::uint32_t random = 0; random < 0x10000u; ++random)
            up += to_bf16_stochastic(std::bit_cast<float>(one | below), random).bits ==
                          (one >> 16) + 1
                      ? 1
                      : 0;
        CHECK(up == below);
    }
    CHECK(to_bf16_stochastic(-1.0f, 0xffffu).bits == 0xbf80u);
    CHECK(to_bf16_stochastic(INFINITY, 0xffffu).bits == 0x7f80u);
    CHECK(std::isnan(to_float(to_bf16_stochastic(NAN, 0xffffu))));
}

}  // namespace gptrain
