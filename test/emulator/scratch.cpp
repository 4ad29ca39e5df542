// Ops with exactly the scratch memory that their own formula gives. The whole of a backend's is
// larger: it is that of the op that needs most.
#include <cstring>
#include <functional>

#include "backend/buffer.h"
#include "catch.h"
#include "cuda/norm/norm.h"
#include "cuda/norm/scratch_sizes.h"
#include "cuda/ops/expert_rows.h"
#include "cuda/ops/fp8.h"
#include "cuda/ops/linear_bias.h"
#include "cuda/ops/router_losses.h"
#include "cuda/runtime/runtime.h"

using namespace gptrain;
using namespace gptrain::cuda;

namespace {

/// Device memory, released at the end of the block.
class DeviceBytes {
public:
    explicit DeviceBytes(std::int64_t bytes) : data_(allocate(bytes, MemorySpace::device)) {}
    DeviceBytes(const DeviceBytes&) = delete;
    DeviceBytes& operator=(const DeviceBytes&) = delete;
    ~DeviceBytes() { release(data_, MemorySpace::device); }
    Tensor tensor(DType dtype, const Shape& shape) const { return {data_, dtype, shape}; }
    std::byte* data() const { return data_; }

private:
    std::byte* data_;
};

/// Runs an op with so much scratch memory; an op that takes more throws.
void run_with(std::int64_t scratch_bytes, const std::function<void(const OpContext&)>& op) {
    const DeviceProperties device = open_device(0);
    const Stream stream;
    const DeviceBytes memory(scratch_bytes);
    Scratch scratch(memory.data(), scratch_bytes);
    op({.stream = stream, .scratch = scratch, .device = device});
    stream.synchronize();
}

}  // namespace

TEST_CASE("backward norms have as many blocks as the device holds", "[choice]") {
    constexpr std::int64_t block = 74'048;  // of rows of up to 4,096 features
    const auto blocks = [](int multiprocessors, std::int64_t kilobytes) {
        DeviceProperties device;
        device.multiprocessors = multiprocessors;
        device.multiprocessor_bytes = kilobytes << 10;
        return norm_blocks(device, block);
    };
    CHECK(blocks(132, 228) == 264);  // H100
    CHECK(blocks(108, 164) == 216);  // A100
    CHECK(blocks(128, 100) == 128);  // RTX 4090
    CHECK(blocks(1000, 228) == max_norm_parts);
    CHECK(norm_blocks(open_device(0), 1024, 1) == open_device(0).multiprocessors);
}

TEST_CASE("sums of rows take no more scratch than their formula says, with the same bits",
          "[choice]") {
    // Multiples of 16: of other sizes a conversion leaves the sums to BiasGrad.
    const std::int64_t rows = GENERATE(16, 64, 128, 144, 1008);
    const std::int64_t cols = GENERATE(16, 528);
    const DeviceBytes x(rows * cols * 2), transposed(rows * cols), sums(cols * 4), scalars(512);
    const DeviceBytes column_scales(div_ceil(rows, fp8_block) * cols * 4), other_sums(cols * 4);
    const Tensor values = x.tensor(DType::bf16, {rows, cols});
    for (std::int64_t i = 0; i < values.elements(); ++i)
        values.as<Bf16>()[i] = to_bf16(0.37f * static_cast<float>(i * 37 % 1009) - 180.0f);
    for (const DeviceBytes* totals : {&sums, &other_sums})
        std::memset(totals->data(), 0, static_cast<std::size_t>(cols) * 4);
    *reinterpret_cast<float*>(scalars.data()) = 200;
    const Tensor row_sum = sums.tensor(DType::f32, {cols});
    const OpLimits limits = {
        .compute = DType::bf16, .sequences = 1, .seq_length = rows, .widest = cols};
    CHECK_NOTHROW(run_with(fp8_scratch_bytes(limits), [&](const OpContext& context) {
        run(ToFp8{.x = values,
                  .amax = Tensor(scalars.data(), DType::f32, {1}),
                  .out = {{},
                          transposed.tensor(DType::f8e5m2, {cols, rows}),
                          Tensor(scalars.data() + 256, DType::f32, {1})},
                  .row_sum = row_sum},
            context);
    }));
    CHECK_NOTHROW(run_with(fp8_scratch_bytes(limits), [&](const OpContext& context) {
        run(ToFp8Columns{.x = values,
                         .out = {{},
                                 transposed.tensor(DType::f8e4m3, {cols, rows}),
                                 {},
                                 column_scales.tensor(DType::f32, fp8_row_scales(cols, rows))},
                         .row_sum = other_sums.tensor(DType::f32, {cols})},
            context);
    }));
    CHECK(std::memcmp(sums.data(), other_sums.data(), static_cast<std::size_t>(cols) * 4) == 0);
    CHECK_NOTHROW(run_with(bias_scratch_bytes(limits), [&](const OpContext& context) {
        run(BiasGrad{.dy = values, .dbias = row_sum}, context);
    }));
}

TEST_CASE("ops of experts take no more scratch than their formula says", "[choice]") {
    // The last has more parts of tokens than blocks.
    const std::int64_t tokens = GENERATE(1, 33, 66, 8256);
    const std::int64_t experts = GENERATE(1, 3);
    const std::int64_t per_token = experts == 1 ? 1 : 2;
    const DeviceBytes logits(tokens * experts * 4), weights(tokens * 4), loss(8);
    const DeviceBytes chosen(tokens * per_token * 4), slots(tokens * per_token * 4);
    const DeviceBytes places(tokens * per_token * 4), offsets(experts * 4 + 4);
    const DeviceBytes sums(tokens * (2 * experts + 1) * 8);
    const Tensor of_tokens = logits.tensor(DType::f32, {tokens, experts});
    const Tensor choice = chosen.tensor(DType::i32, {tokens, per_token});
    const Tensor token_weights = weights.tensor(DType::f32, {tokens});
    const OpLimits limits = {.sequences = 1,
                             .seq_length = tokens,
                             .experts = experts,
                             .expert_slots = tokens * per_token};
    const std::int64_t of_router = router_scratch_bytes(limits);
    for (const std::int64_t groups : {1, 2, 3, 33, 129}) {
        if (tokens % groups != 0) continue;
        CHECK_NOTHROW(run_with(of_router, [&](const OpContext& context) {
            run(BalanceSums{.logits = of_tokens,
                            .rule = {},
                            .chosen = choice,
                            .token_weights = token_weights,
                            .sums = sums.tensor(DType::f64, {groups, 2 * experts + 1})},
                context);
        }));
    }
    CHECK_NOTHROW(run_with(of_router, [&](const OpContext& context) {
        run(MeasureRouter{.logits = of_tokens,
                          .rule = {},
                          .chosen = choice,
                          .token_weights = token_weights,
                          .counts = {},
                          .entropy = sums.tensor(DType::f64, {2})},
            context);
    }));
    CHECK_NOTHROW(run_with(of_router, [&](const OpContext& context) {
        run(RouterZLoss{.logits = of_tokens,
                        .token_weights = token_weights,
                        .loss = loss.tensor(DType::f64, {1}),
                        .dlogits = {},
                        .step = {Tensor(logits.data(), DType::u8, {1}), {}}},
            context);
    }));
    const std::int64_t of_rows = expert_rows_scratch_bytes(limits);
    CHECK_NOTHROW(run_with(of_rows, [&](const OpContext& context) {
        run(GroupByExpert{.chosen = choice,
                          .offsets = offsets.tensor(DType::i32, {experts + 1}),
                          .slots = slots.tensor(DType::i32, {tokens * per_token}),
                          .places = places.tensor(DType::i32, {tokens, per_token})},
            context);
    }));
    // The most ranks: each has one expert.
    const DeviceBytes sent(tokens * experts * 4), to(tokens * experts * 4),
        with(tokens * experts * 4);
    const DeviceBytes of_slots(tokens * per_token * 4);
    const Shape messages = {experts, tokens};
    CHECK_NOTHROW(run_with(of_rows, [&](const OpContext& context) {
        run(PlaceRows{.chosen = choice,
                      .weights = of_slots.tensor(DType::f32, {tokens, per_token}),
                      .experts_per_rank = 1,
                      .places = places.tensor(DType::i32, {tokens, per_token}),
                      .slots = sent.tensor(DType::i32, messages),
                      .experts = to.tensor(DType::i32, messages),
                      .weighted = with.tensor(DType::f32, messages),
                      .unplaced = loss.tensor(DType::f64, {1})},
            context);
    }));
}
