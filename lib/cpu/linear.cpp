#include "cpu/linear.h"

#include <array>

#include "cpu/activation.h"
#include "cpu/few_rows.h"
#include "cpu/linear_bias.h"
#include "cpu/parallel.h"
#include "cpu/row_kernels.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

// Sizes of the blocks that are widened, multiplied and rounded at a time. A widened element serves
// hundreds of multiplications, and the blocks stay in the cache.
constexpr std::int64_t block_rows = 512;
constexpr std::int64_t block_cols = 1024;
constexpr std::int64_t block_length = 1024;

/// Operations on the fp32 sums before they are stored in c.
struct Epilogue {
    Tensor bias;  ///< added; [width of c] or empty
    /// Sums are multiplied by gelu'(gelu_input). Rows of c's shape; empty if there is a bias.
    Tensor gelu_input;
    bool accumulate = false;  ///< c as it was is added
};

/// All 256 values of a format, times the scale.
template <class Fp8>
std::array<float, 256> values_of(float scale) {
    std::array<float, 256> values{};
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = to_float(Fp8{static_cast<std::uint8_t>(i)}) * scale;
    return values;
}

/// Widens an FP8 matrix with contiguous rows to fp32.
void widen_fp8(const Matrix& block, float* memory) {
    std::array<float, 256> values{};
    with_fp8_type(block.dtype, [&](auto type) {
        values = values_of<decltype(type)>(block.in_blocks() ? 1 : *block.scale);
    });
    const auto* from = reinterpret_cast<const std::uint8_t*>(block.data);
    const ScaleGrid& grid = block.scales;
    parallel_ranges(block.rows, block.cols, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* scales =
                block.in_blocks() ? block.scale + row / grid.rows * grid.row_step : nullptr;
            for (std::int64_t col = 0; col < block.cols; ++col) {
                float x = values[from[row * block.row_stride + col]];
                if (scales != nullptr) x *= scales[col / grid.cols * grid.col_step];
                memory[row * block.cols + col] = x;
            }
        }
    });
}

/// The block in fp32, packed in `memory`; the block itself if it is fp32.
Matrix widen(const Matrix& block, float* memory) {
    if (block.dtype == DType::f32) return block;
    if (block.col_stride != 1) return widen(block.transposed(), memory).transposed();
    if (block.is_fp8()) {
        widen_fp8(block, memory);
        return Matrix(memory, block.rows, block.cols);
    }
    with_compute_type(block.dtype, [&](auto type) {
        using T = decltype(type);
        const T* from = reinterpret_cast<const T*>(block.data);
        parallel_ranges(block.rows, block.cols, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                for_vectors(0, block.cols, [&](std::int64_t col, auto lanes) {
                    store(memory + row * block.cols + col,
                          load(from + row * block.row_stride + col, lanes), lanes);
                });
            }
        });
    });
    return Matrix(memory, block.rows, block.cols);
}

/// to = round((sums + bias) gelu slope), or round(to + sums), for the block of c at (row, col).
template <class T>
void finish(const Matrix& sums, const Matrix& to, const Epilogue& epilogue, std::int64_t row,
            std::int64_t col) {
    const auto* from = reinterpret_cast<const float*>(sums.data);
    auto* target = reinterpret_cast<T*>(to.data);
    const T* bias = epilogue.bias.empty() ? nullptr : epilogue.bias.as<T>() + col;
    const Rows<T> gelu_input(epilogue.gelu_input);
    const RowKernels<T>& kernels = row_kernels<T>();
    parallel_ranges(to.rows, 4 * to.cols, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const float* sum = from + i * sums.row_stride;
            T* y = target + i * to.row_stride;
            if (gelu_input) {
                kernels.times_gelu_slope(sum, gelu_input[row + i] + col, epilogue.accumulate, y,
                                         to.cols);
                continue;
            }
            for_vectors(0, to.cols, [&](std::int64_t j, auto lanes) {
                Vec8 x = load(sum + j, lanes);
                if (bias != nullptr) x = x + load(bias + j, lanes);
                if (epilogue.accumulate) x = x + load(y + j, lanes);
                store(y + j, x, lanes);
            });
        }
    });
}

/// Computes c = a b or c += a b by blocks of c. The sums are fp32 in scratch memory, or c itself if
/// it is fp32, without an epilogue.
class BlockedGemm {
public:
    BlockedGemm(const Gemm& gemm, const Epilogue& epilogue, Gemms& gemms, Scratch& scratch)
        : gemm_(gemm),
          epilogue_(epilogue),
          gemms_(gemms),
          native_(gemms.native(gemm.a.dtype)),
          in_place_(gemm.c.dtype == DType::f32),
          scratch_(scratch) {
        if (!in_place_) sums_ = scratch.take<float>(block_rows * block_cols);
        if (native_) return;
        a_ = scratch.take<float>(block_rows * block_length);
        b_ = scratch.take<float>(block_length * block_cols);
    }

    void run() {
        for (std::int64_t col = 0; col < gemm_.c.cols; col += block_cols) {
            for (std::int64_t row = 0; row < gemm_.c.rows; row += block_rows)
                run_block(row, col);
        }
    }

private:
    void run_block(std::int64_t row, std::int64_t col) {
        const std::int64_t rows = std::min(block_rows, gemm_.c.rows - row);
        const std::int64_t cols = std::min(block_cols, gemm_.c.cols - col);
        const std::int64_t length = gemm_.a.cols;
        const std::int64_t step = native_ ? length : block_length;
        const Matrix to = gemm_.c.block(row, rows, col, cols);
        const Matrix sums = in_place_ ? to : Matrix(sums_, rows, cols);
        for (std::int64_t at = 0; at < length; at += step) {
            const std::int64_t part = std::min(step, length - at);
            const Matrix a = gemm_.a.block(row, rows, at, part);
            const Matrix b = gemm_.b.block(at, part, col, cols);
            Scratch inner = scratch_;
            gemms_.multiply({.a = native_ ? a : widen(a, a_),
                             .b = native_ ? b : widen(b, b_),
                             .c = sums,
                             .accumulate = gemm_.accumulate || at > 0},
                            inner);
        }
        if (in_place_) return;
        with_compute_type(
            to.dtype, [&](auto type) { finish<decltype(type)>(sums, to, epilogue_, row, col); });
    }

    const Gemm& gemm_;
    const Epilogue& epilogue_;
    Gemms& gemms_;
    bool native_;
    bool in_place_;
    Scratch& scratch_;
    float* sums_ = nullptr;
    float* a_ = nullptr;
    float* b_ = nullptr;
};

}  // namespace

namespace {

void multiply(const LinearForward& args, Gemms& gemms, Scratch& scratch) {
    if (has_few_rows(args)) return multiply_few_rows(args);
    const Matrix a = matrix_by_rows(args.x, args.x8);
    const Matrix b = matrix_by_rows(args.weight, args.weight8).transposed();
    const Matrix c(args.y);
    if (gemms.native(a.dtype)) {
        gemms.multiply(
            {.a = a, .b = b, .c = c, .bias = args.bias.data(), .accumulate = args.accumulate},
            scratch);
    } else {
        // fp32 sums are added up in y.
        const bool apart = c.dtype == DType::f32 && !args.bias.empty();
        const Epilogue epilogue = {
            .bias = apart ? Tensor() : args.bias, .gelu_input = {}, .accumulate = args.accumulate};
        BlockedGemm({.a = a, .b = b, .c = c}, epilogue, gemms, scratch).run();
        if (apart) run(AddBias{.y = args.y, .bias = args.bias});
    }
}

}  // namespace

void run(const LinearForward& args, Gemms& gemms, Scratch& scratch) {
    multiply(args, gemms, scratch);
    if (!args.gelu.empty()) run(ActivationForward{.u = args.y, .y = args.gelu});
}

void run(const LinearInputGrad& args, Gemms& gemms, Scratch& scratch) {
    const Matrix a = matrix_by_rows(args.dy, args.dy8);
    const Matrix b = matrix_by_columns(args.weight, args.weight8);
    const Matrix c(args.dx);
    const Epilogue epilogue = {
        .bias = {}, .gelu_input = args.gelu_input, .accumulate = args.accumulate};
    const DType dtype = a.dtype;
    const bool with_gelu = !args.gelu_input.empty();
    // Without rounding in between, the sums need no separate memory.
    if (!gemms.native(dtype) || (with_gelu && dtype != DType::f32)) {
        BlockedGemm({.a = a, .b = b, .c = c}, epilogue, gemms, scratch).run();
        return;
    }
    gemms.multiply({.a = a, .b = b, .c = c, .accumulate = args.accumulate}, scratch);
    if (with_gelu) finish<float>(c, c, epilogue, 0, 0);
}

void run(const LinearWeightGrad& args, Gemms& gemms, Scratch& scratch) {
    const Gemm gemm = {.a = matrix_by_columns(args.dy, args.dy8).transposed(),
                       .b = matrix_by_columns(args.x, args.x8),
                       .c = Matrix(args.dweight),
                       .accumulate = args.accumulate};
    if (gemms.native(gemm.a.dtype)) {
        gemms.multiply(gemm, scratch);
    } else {
        BlockedGemm(gemm, {}, gemms, scratch).run();
    }
    if (!args.dbias.empty()) run(BiasGrad{.dy = args.dy, .dbias = args.dbias});
}

std::int64_t linear_scratch_bytes(DType compute, int threads) {
    std::int64_t bytes = Gemms::scratch_bytes(threads);
    if (compute == DType::f32) return bytes;
    for (const std::int64_t elements :
         {block_rows * block_cols, block_rows * block_length, block_length * block_cols}) {
        bytes += Scratch::bytes_of<float>(elements);
    }
    return bytes;
}

}  // namespace gptrain::cpu
