// Matrices as GEMMs see them, linear ops without their elements, and the memory that ops touch.
#include <vector>

#include "backend/linear_op.h"
#include "backend/matrix.h"
#include "backend/op_tensors.h"
#include "catch.h"
#include "support/shaped.h"

namespace gptrain::test {
TEST_CASE("a block of a transposed matrix is the transpose of a block") {
    std::vector<float> values(5 * 8);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i);
    const Tensor all(reinterpret_cast<std::byte*>(values.data()), DType::f32, {5, 8});
    const Matrix part(all.slice(1, 2, 5));  // rows of 5 with gaps of 3
    CHECK(part.rows == 5);
    CHECK(part.cols == 5);
    const auto at = [](const Matrix& m, std::int64_t row, std::int64_t col) {
        return reinterpret_cast<const float*>(m.data)[row * m.row_stride + col * m.col_stride];
    };
    const Matrix block = part.block(1, 3, 2, 2);
    const Matrix turned = part.transposed().block(2, 2, 1, 3);
    CHECK(block.rows == 3);
    CHECK(turned.rows == 2);
    for (std::int64_t row = 0; row < 3; ++row) {
        for (std::int64_t col = 0; col < 2; ++col) {
            CHECK(at(block, row, col) == static_cast<float>((row + 1) * 8 + 2 + col + 2));
            CHECK(at(turned, col, row) == at(block, row, col));
        }
    }
    CHECK(at(Matrix(values.data(), 8, 5), 7, 4) == 39);
    CHECK_THROWS_AS(Matrix(all.transpose(0, 1)), Error);
}

TEST_CASE("an FP8 matrix is read by the form whose contiguous dim a GEMM sums over") {
    const Tensor x = shaped(DType::bf16, {4, 6});
    const Fp8Matrix form = shaped_fp8(DType::f8e4m3, 4, 6);
    CHECK(matrix_by_rows(x, {}).dtype == DType::bf16);
    CHECK(matrix_by_columns(x, {}).col_stride == 1);
    const Matrix rows = matrix_by_rows(x, form);
    CHECK(rows.row_stride == 6);
    CHECK(rows.scale == form.scale.as<float>());
    const Matrix columns = matrix_by_columns(x, form);
    CHECK(columns.rows == 4);
    CHECK(columns.cols == 6);
    CHECK(columns.row_stride == 1);
    CHECK(columns.col_stride == 4);
    CHECK(columns.is_fp8());
}

TEST_CASE("linear ops are equal if nothing differs that the choice of an algorithm may depend on") {
    const Tensor x = shaped(DType::bf16, {8, 16});
    const Tensor weight = shaped(DType::bf16, {32, 16});
    const Tensor y = shaped(DType::bf16, {8, 32});
    const LinearForward plain = {.x = x, .weight = weight, .bias = {}, .y = y};
    LinearForward other = plain;
    other.x = shaped(DType::bf16, {8, 16}, 4096);
    other.weight = shaped(DType::bf16, {32, 16}, 16 * 5);
    CHECK(LinearOp(other) == LinearOp(plain));

    std::vector<LinearForward> different(7, plain);
    different[0].x = shaped(DType::bf16, {8, 16}, 256 + 8);
    different[1].x = shaped(DType::bf16, {8, 20}).slice(1, 0, 16);
    different[2].x = shaped(DType::f16, {8, 16});
    different[3].x = shaped(DType::bf16, {9, 16});
    different[4].bias = shaped(DType::bf16, {32});
    different[5].gelu = y;
    different[6].accumulate = true;
    LinearOps distinct = {LinearOp(plain), LinearOp(other)};
    for (const LinearForward& op : different)
        distinct.emplace(op);
    CHECK(distinct.size() == 1 + different.size());

    LinearWeightGrad gradient = {
        .x = x, .dy = y, .dweight = shaped(DType::f32, {32, 16}), .dbias = {}};
    const LinearOp added(gradient);
    gradient.accumulate = false;
    CHECK(LinearOp(gradient) != added);
}

TEST_CASE("a linear op in FP8 has the operands' forms that its GEMM reads") {
    const Fp8Matrix x8 = shaped_fp8(DType::f8e4m3, 8, 16);
    const Fp8Matrix weight8 = shaped_fp8(DType::f8e4m3, 32, 16);
    const Fp8Matrix dy8 = shaped_fp8(DType::f8e5m2, 8, 32);
    const Tensor y = shaped(DType::bf16, {8, 32});
    const auto is = [](const MatrixLayout& layout, DType dtype, std::int64_t rows,
                       std::int64_t cols) {
        return layout == MatrixLayout{rows, cols, cols, 0, dtype};
    };
    using enum DType;
    // Forward sums over I, the input gradient over O, the weight gradient over tokens.
    const LinearOp forward(
        LinearForward{.x = {}, .weight = {}, .bias = {}, .y = y, .x8 = x8, .weight8 = weight8});
    CHECK(is(forward.first, f8e4m3, 8, 16));
    CHECK(is(forward.second, f8e4m3, 32, 16));
    const LinearOp input(LinearInputGrad{.dy = {},
                                         .weight = {},
                                         .gelu_input = {},
                                         .dx = shaped(bf16, {8, 16}),
                                         .dy8 = dy8,
                                         .weight8 = weight8});
    CHECK(is(input.first, f8e5m2, 8, 32));
    CHECK(is(input.second, f8e4m3, 16, 32));
    const LinearOp weight(LinearWeightGrad{
        .x = {}, .dy = {}, .dweight = shaped(f32, {32, 16}), .dbias = {}, .x8 = x8, .dy8 = dy8});
    CHECK(is(weight.first, f8e5m2, 32, 8));
    CHECK(is(weight.second, f8e4m3, 16, 8));
    CHECK(is(weight.result, f32, 32, 16));
}

TEST_CASE("memory traffic counts bytes read and written, updates twice") {
    const Tensor x = shaped(DType::bf16, {3, 8});
    CHECK(memory_traffic(Fill{.x = x, .value = 1}) == 48);
    CHECK(memory_traffic(Cast{.to = shaped(DType::f32, {3, 8}), .from = x}) == 96 + 48);
    CHECK(memory_traffic(Add{.x = x, .y = x}) == 3 * 48);
    const Tensor dbias = shaped(DType::f32, {8});
    CHECK(memory_traffic(BiasGrad{.dy = x, .dbias = dbias}) == 48 + 2 * 32);
    CHECK(memory_traffic(Clear{.values = std::vector{dbias, dbias}}) == 2 * 32);

    AdamWPiece piece;
    piece.main_param = piece.main_grad = piece.exp_avg = piece.exp_avg_sq =
        shaped(DType::f32, {100});
    CHECK(memory_traffic(AdamW{.pieces = std::span(&piece, 1)}) == 400 + 3 * 800);
    piece.weight = shaped(DType::bf16, {100});
    CHECK(memory_traffic(AdamW{.pieces = std::span(&piece, 1)}) == 400 + 3 * 800 + 200);
}

TEST_CASE("memory traffic counts the rows of a table that are looked up") {
    const Tensor ids = shaped(DType::i32, {3});
    const Tensor x = shaped(DType::bf16, {3, 8});
    const Tensor large = shaped(DType::bf16, {1000, 8});
    const Tensor small = shaped(DType::bf16, {2, 8});
    CHECK(memory_traffic(EmbeddingForward{.ids = ids, .weight = large, .x = x}) == 12 + 2 * 48);
    CHECK(memory_traffic(EmbeddingForward{.ids = ids, .weight = small, .x = x}) == 12 + 32 + 48);
}

}  // namespace gptrain::test
