#include "cpu/linear.h"

#include "tensor/dtype_switch.h"
#include "cpu/parallel.h"
#include "cpu/vector8.h"
#include "cpu/vector_math.h"

namespace gptrain::cpu {
namespace {

// Sizes of the blocks that are widened, multiplied and rounded at a time. A widened element serves
// hundreds of multiplications, and the blocks stay in the cache.
constexpr std::int64_t block_rows = 512;
constexpr std::int64_t block_cols = 1024;
constexpr std::int64_t block_length = 1024;

/// What happens to the fp32 sums on their way to c.
struct Epilogue {
    Tensor bias;        ///< added; [c's width] or empty
    Tensor gelu_input;  ///< times the slope of gelu there; rows of c's shape or empty
};

/// The same elements in fp32, side by side in `memory`.
Matrix widen(const Matrix& block, float* memory) {
    if (block.dtype == DType::f32) return block;
    if (block.col_stride != 1) return widen(block.transposed(), memory).transposed();
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

/// to = round((sums + bias) slope) for the block of c at (row, col).
template <class T>
void finish(const Matrix& sums, const Matrix& to, const Epilogue& epilogue, std::int64_t row,
            std::int64_t col) {
    const auto* from = reinterpret_cast<const float*>(sums.data);
    auto* target = reinterpret_cast<T*>(to.data);
    const T* bias = epilogue.bias.empty() ? nullptr : epilogue.bias.as<T>() + col;
    const Rows<T> gelu_input(epilogue.gelu_input);
    parallel_ranges(to.rows, 4 * to.cols, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const T* u = gelu_input ? gelu_input[row + i] + col : nullptr;
            for_vectors(0, to.cols, [&](std::int64_t j, auto lanes) {
                Vec8 x = load(from + i * sums.row_stride + j, lanes);
                if (bias != nullptr) x = x + load(bias + j, lanes);
                if (u != nullptr) x = x * gelu(load(u + j, lanes)).slope;
                store(target + i * to.row_stride + j, x, lanes);
            });
        }
    });
}

/// c = a b by blocks of c whose sums are kept in fp32 in the scratch memory, or, where c itself is
/// fp32 and accumulates, directly in it.
class BlockedProduct {
public:
    BlockedProduct(const Product& product, const Epilogue& epilogue, Products& products,
                   Scratch& scratch)
        : product_(product),
          epilogue_(epilogue),
          products_(products),
          native_(products.native(product.a.dtype)),
          scratch_(scratch) {
        if (!product.accumulate) sums_ = scratch.take<float>(block_rows * block_cols);
        if (native_) return;
        a_ = scratch.take<float>(block_rows * block_length);
        b_ = scratch.take<float>(block_length * block_cols);
    }

    void run() {
        for (std::int64_t col = 0; col < product_.c.cols; col += block_cols) {
            for (std::int64_t row = 0; row < product_.c.rows; row += block_rows)
                run_block(row, col);
        }
    }

private:
    void run_block(std::int64_t row, std::int64_t col) {
        const std::int64_t rows = std::min(block_rows, product_.c.rows - row);
        const std::int64_t cols = std::min(block_cols, product_.c.cols - col);
        const std::int64_t length = product_.a.cols;
        const std::int64_t step = native_ ? length : block_length;
        const Matrix to = product_.c.block(row, rows, col, cols);
        const Matrix sums = product_.accumulate ? to : Matrix(sums_, rows, cols);
        for (std::int64_t at = 0; at < length; at += step) {
            const std::int64_t part = std::min(step, length - at);
            const Matrix a = product_.a.block(row, rows, at, part);
            const Matrix b = product_.b.block(at, part, col, cols);
            Scratch inner = scratch_;
            products_.multiply({.a = native_ ? a : widen(a, a_),
                                .b = native_ ? b : widen(b, b_),
                                .c = sums,
                                .accumulate = product_.accumulate || at > 0},
                               inner);
        }
        if (product_.accumulate) return;
        with_compute_type(
            to.dtype, [&](auto type) { finish<decltype(type)>(sums, to, epilogue_, row, col); });
    }

    const Product& product_;
    const Epilogue& epilogue_;
    Products& products_;
    bool native_;
    Scratch& scratch_;
    float* sums_ = nullptr;
    float* a_ = nullptr;
    float* b_ = nullptr;
};

}  // namespace

void linear_forward(const LinearForward& args, Products& products, Scratch& scratch) {
    const Product product = {.a = Matrix(args.x),
                             .b = Matrix(args.weight).transposed(),
                             .c = Matrix(args.y),
                             .bias = args.bias.data()};
    if (products.native(args.x.dtype())) {
        products.multiply(product, scratch);
    } else {
        const Epilogue epilogue = {.bias = args.bias, .gelu_input = {}};
        BlockedProduct(product, epilogue, products, scratch).run();
    }
}

void linear_input_grad(const LinearInputGrad& args, Products& products, Scratch& scratch) {
    const Product product = {.a = Matrix(args.dy), .b = Matrix(args.weight), .c = Matrix(args.dx)};
    const Epilogue epilogue = {.bias = {}, .gelu_input = args.gelu_input};
    const DType dtype = args.dy.dtype();
    const bool with_gelu = !args.gelu_input.empty();
    // Without rounding in between the sums need no memory of their own.
    if (!products.native(dtype) || (with_gelu && dtype != DType::f32)) {
        BlockedProduct(product, epilogue, products, scratch).run();
        return;
    }
    products.multiply(product, scratch);
    if (with_gelu) finish<float>(product.c, product.c, epilogue, 0, 0);
}

void linear_weight_grad(const LinearWeightGrad& args, Products& products, Scratch& scratch) {
    const Product product = {.a = Matrix(args.dy).transposed(),
                             .b = Matrix(args.x),
                             .c = Matrix(args.dweight),
                             .accumulate = true};
    if (products.native(args.dy.dtype())) {
        products.multiply(product, scratch);
    } else {
        BlockedProduct(product, {}, products, scratch).run();
    }
    if (!args.dbias.empty()) bias_grad(args.dy, args.dbias);
}

void bias_grad(const Tensor& dy, const Tensor& dbias) {
    const std::int64_t rows = dy.size(0);
    auto* sums = dbias.as<float>();
    with_compute_type(dy.dtype(), [&](auto type) {
        const Rows<decltype(type)> from(dy);
        // A few cache lines side by side, so that rows are read in whole lines.
        parallel_ranges(dy.size(1), rows, 128, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t first = begin; first < end; first += 128) {
                const std::int64_t last = std::min(first + 128, end);
                for (std::int64_t row = 0; row < rows; ++row) {
                    for_vectors(first, last, [&](std::int64_t o, auto lanes) {
                        store(sums + o, load(sums + o, lanes) + load(from[row] + o, lanes), lanes);
                    });
                }
            }
        });
    });
}

void add_bias(const Tensor& y, const Tensor& bias) {
    const std::int64_t hidden = y.size(1);
    with_compute_type(y.dtype(), [&](auto type) {
        using T = decltype(type);
        const Rows<T> rows(y);
        const T* added = bias.as<T>();
        parallel_ranges(y.size(0), hidden, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                for_vectors(0, hidden, [&](std::int64_t h, auto lanes) {
                    store(rows[row] + h, load(rows[row] + h, lanes) + load(added + h, lanes),
                          lanes);
                });
            }
        });
    });
}

std::int64_t linear_scratch_bytes(DType compute, int threads) {
    std::int64_t bytes = Products::scratch_bytes(threads);
    if (compute == DType::f32) return bytes;
    for (const std::int64_t elements :
         {block_rows * block_cols, block_rows * block_length, block_length * block_cols}) {
        bytes += Scratch::bytes_of<float>(elements);
    }
    return bytes;
}

}  // namespace gptrain::cpu
