// The FLOPs and bytes of ops, counted by hand.
#include "meter/work_of.h"

#include "catch.h"
#include "support/shaped.h"

namespace gptrain::test {
namespace {

// T tokens, I inputs and O outputs of a linear layer, so that no two products are equal.
constexpr std::int64_t T = 3, I = 5, O = 7;

}  // namespace

TEST_CASE("a GEMM has two FLOPs for each element of its sum, and reads and writes its matrices") {
    const Tensor x = shaped(DType::bf16, {T, I});
    const Tensor weight = shaped(DType::bf16, {O, I});
    const Tensor y = shaped(DType::bf16, {T, O});
    const OpWork forward = work_of(LinearForward{.x = x, .weight = weight, .bias = {}, .y = y});
    CHECK(forward == OpWork{.kind = OpWork::Kind::gemm,
                            .dtype = DType::bf16,
                            .name = "linear_forward",
                            .rows = T,
                            .cols = O,
                            .length = I,
                            .flops = 2 * 3 * 5 * 7,
                            .bytes = 2 * (3 * 5 + 7 * 5 + 3 * 7)});
    const OpWork input =
        work_of(LinearInputGrad{.dy = y, .weight = weight, .gelu_input = {}, .dx = x});
    CHECK(input.rows == T);
    CHECK(input.cols == I);
    CHECK(input.length == O);
    // A kernel apart from the GEMM reads and writes once more.
    CHECK(forward.gelu_bytes == 0);
    CHECK(work_of(LinearForward{.x = x, .weight = weight, .bias = {}, .y = y, .gelu = y})
              .gelu_bytes == 2 * 2 * 3 * 7);
    CHECK(work_of(LinearInputGrad{.dy = y, .weight = weight, .gelu_input = x, .dx = x})
              .gelu_gradient_bytes == 2 * 2 * 3 * 5);
    LinearWeightGrad op = {.x = x, .dy = y, .dweight = shaped(DType::f32, {O, I}), .dbias = {}};
    const OpWork gradient = work_of(op);
    CHECK(gradient.rows == O);
    CHECK(gradient.cols == I);
    CHECK(gradient.length == T);
    // dweight in fp32 is read and written.
    CHECK(gradient.bytes == 2 * (3 * 5 + 3 * 7) + 2 * 4 * 7 * 5);
    op.accumulate = false;
    CHECK(work_of(op).bytes == 2 * (3 * 5 + 3 * 7) + 4 * 7 * 5);
    CHECK(input.flops == forward.flops);
    CHECK(gradient.flops == forward.flops);
}

TEST_CASE("a grouped GEMM is one for each expert that can have rows") {
    constexpr std::int64_t experts = 4, parts = 2, rows = 10;
    const Tensor x = shaped(DType::bf16, {rows, I});
    const Tensor y = shaped(DType::bf16, {rows, parts * O});
    const Tensor weight = shaped(DType::bf16, {parts, experts, O, I});
    const Tensor offsets = shaped(DType::i32, {experts + 1});
    const OpWork forward =
        work_of(GroupedForward{.x = x, .weight = weight, .offsets = offsets, .y = y});
    CHECK(forward == OpWork{.kind = OpWork::Kind::gemm,
                            .dtype = DType::bf16,
                            .name = "grouped_forward",
                            .groups = 4,
                            .rows = 3,
                            .cols = 2 * 7,
                            .length = 5,
                            .flops = 2 * 10 * 14 * 5,
                            .bytes = 2 * (10 * 5 + 2 * 4 * 7 * 5 + 10 * 14) + 4 * 5});
    const OpWork input =
        work_of(GroupedInputGrad{.dy = y, .weight = weight, .offsets = offsets, .dx = x});
    CHECK(input.groups == 4);
    CHECK(input.rows == 3);
    CHECK(input.cols == 5);
    CHECK(input.length == 14);
    const OpWork gradient =
        work_of(GroupedWeightGrad{.x = x,
                                  .dy = y,
                                  .offsets = offsets,
                                  .dweight = shaped(DType::f32, {parts, experts, O, I})});
    CHECK(gradient.groups == 4);
    CHECK(gradient.rows == 14);
    CHECK(gradient.cols == 5);
    CHECK(gradient.length == 3);
    CHECK(input.flops == forward.flops);
    CHECK(gradient.flops == forward.flops);
    const Tensor one = shaped(DType::bf16, {1, I});
    const OpWork few = work_of(GroupedForward{
        .x = one, .weight = weight, .offsets = offsets, .y = shaped(DType::bf16, {1, parts * O})});
    CHECK(few.groups == 1);
    CHECK(few.rows == 1);
    // Half of the rows of messages are empty.
    const OpWork half = work_of(
        GroupedForward{.x = x, .weight = weight, .offsets = offsets, .y = y, .expected = 5});
    CHECK(half.rows == 2);
    CHECK(half.flops == forward.flops / 2);
}

TEST_CASE("widening experts from int8 counts those that can have rows") {
    const Shape shape = {2, 8, 3, 64};
    const GroupedFromInt8 all = {.x = {shaped(DType::i8, shape), shaped(DType::f32, {2, 8, 3, 1})},
                                 .offsets = shaped(DType::i32, {9}),
                                 .out = shaped(DType::bf16, shape),
                                 .rows = 40};
    CHECK(work_of(all).bytes == 48 * (64 * 3 + 4) + 36);
    GroupedFromInt8 few = all;
    few.rows = 2;
    CHECK(work_of(few).bytes == work_of(all).bytes / 4);
}

TEST_CASE("FP8 and int8 count the operands that a GEMM reads, with its sums over the same dim") {
    const Tensor y = shaped(DType::bf16, {T, O});
    const Fp8Matrix x8 = shaped_fp8(DType::f8e4m3, T, I);
    const Fp8Matrix weight8 = shaped_fp8(DType::f8e4m3, O, I);
    const Fp8Matrix dy8 = shaped_fp8(DType::f8e5m2, T, O);
    const OpWork forward = work_of(
        LinearForward{.x = {}, .weight = {}, .bias = {}, .y = y, .x8 = x8, .weight8 = weight8});
    CHECK(forward.dtype == DType::f8e4m3);
    CHECK(forward.length == I);
    CHECK(forward.bytes == 3 * 5 + 7 * 5 + 2 * 4 + 2 * 3 * 7);
    const OpWork input = work_of(LinearInputGrad{.dy = {},
                                                 .weight = {},
                                                 .gelu_input = {},
                                                 .dx = shaped(DType::bf16, {T, I}),
                                                 .dy8 = dy8,
                                                 .weight8 = weight8});
    CHECK(input.dtype == DType::f8e5m2);
    CHECK(input.length == O);
    const OpWork gradient = work_of(LinearWeightGrad{.x = {},
                                                     .dy = {},
                                                     .dweight = shaped(DType::f32, {O, I}),
                                                     .dbias = {},
                                                     .x8 = x8,
                                                     .dy8 = dy8});
    CHECK(gradient.rows == O);
    CHECK(gradient.cols == I);
    CHECK(gradient.length == T);
    CHECK(gradient.flops == forward.flops);
    const OpWork int8 =
        work_of(Int8LinearForward{.x = shaped(DType::bf16, {T, I}),
                                  .weight = {shaped(DType::i8, {O, I}), shaped(DType::f32, {O, 1})},
                                  .bias = {},
                                  .y = y});
    CHECK(int8.flops == forward.flops);
    CHECK(int8.bytes == 2 * 3 * 5 + 7 * 5 + 4 * 7 + 2 * 3 * 7);
}

TEST_CASE("attention has two GEMMs forward and five backward, of the visible pairs alone") {
    constexpr std::int64_t B = 2, N = 6, G = 2, D = 4;
    for (const std::int64_t queries : {1, 4, 5}) {
        for (const std::int64_t keys : {1, 4, 9}) {
            for (const std::int64_t q_begin : {0, 3, 7, 100}) {
                for (const std::int64_t k_begin : {0, 2, 8}) {
                    for (const std::int64_t window : {0, 1, 3}) {
                        CAPTURE(queries, keys, q_begin, k_begin, window);
                        const Tensor q = shaped(DType::bf16, {B, queries, N, D});
                        const Tensor k = shaped(DType::bf16, {B, keys, G, D});
                        const AttentionForward forward = {
                            .q = q,
                            .k = k,
                            .v = k,
                            .o = q,
                            .lse = shaped(DType::f32, {B, N, queries}),
                            .q_begin = q_begin,
                            .k_begin = k_begin,
                            .first_visible = {},
                            .window = window,
                            .dropout = {}};
                        double pairs = 0;
                        for (std::int64_t i = q_begin; i < q_begin + queries; ++i) {
                            for (std::int64_t j = k_begin; j < k_begin + keys; ++j)
                                pairs += j <= i && (window == 0 || j > i - window) ? 1 : 0;
                        }
                        const OpWork work = work_of(forward);
                        CHECK(work.flops == 2 * 2 * B * N * D * pairs);
                        CHECK(work.length == keys);
                        CHECK(work.head_dim == D);
                        const OpWork backward = work_of(AttentionBackward{
                            .forward = forward, .d_o = q, .dq = q, .dk = k, .dv = k});
                        CHECK(backward.flops == 2 * 5 * B * N * D * pairs);
                    }
                }
            }
        }
    }
}

TEST_CASE("attention writes o8 after its GEMMs") {
    constexpr std::int64_t B = 2, S = 5, N = 3;
    const Tensor q = shaped(DType::bf16, {B, S, N, fp8_block});
    AttentionForward op = {.q = q,
                           .k = q,
                           .v = q,
                           .o = q,
                           .lse = shaped(DType::f32, {B, N, S}),
                           .first_visible = {},
                           .dropout = {}};
    const OpWork without = work_of(op);
    CHECK(without.fp8_bytes == 0);
    op.o8 = {.rowwise = shaped(DType::f8e4m3, {B * S, N * fp8_block}),
             .columnwise = {},
             .scale = shaped(DType::f32, fp8_row_scales(B * S, N * fp8_block))};
    CHECK(work_of(op).fp8_bytes == B * S * N * (fp8_block + 4));
    CHECK(work_of(op).bytes == without.bytes + work_of(op).fp8_bytes);
}

}  // namespace gptrain::test
