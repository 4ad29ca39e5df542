#include "cpu/grouped_linear.h"

#include <algorithm>
#include <cstring>
#include <omp.h>

#include "cpu/linear.h"
#include "cpu/parallel.h"
#include "cpu/values.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

// Sizes of the blocks that are packed and multiplied at a time. Without gaps, oneDNN takes its
// fast kernels; a packed element serves hundreds of multiplications.
constexpr std::int64_t group_rows = 512;
constexpr std::int64_t group_cols = 512;
constexpr std::int64_t group_length = 512;
/// Rows of a block where the bits of a row depend on their number.
constexpr std::int64_t fixed_rows = 96;
/// Other sizes that depend on the number of an expert's rows are multiples of it, which leaves few
/// different GEMMs.
constexpr std::int64_t size_unit = 16;

/// Copies a block with contiguous rows to `to`, widened if To is float; rows up to `padded` are 0.
template <class To, class From>
void pack_as(const Matrix& block, std::int64_t padded, To* to) {
    const auto* from = reinterpret_cast<const From*>(block.data);
    for (std::int64_t row = 0; row < block.rows; ++row, to += block.cols) {
        const From* values = from + row * block.row_stride;
        if constexpr (std::is_same_v<To, From>) {
            std::memcpy(to, values, static_cast<std::size_t>(block.cols) * sizeof(To));
        } else {
            for_vectors(0, block.cols, [&](std::int64_t i, auto lanes) {
                store(to + i, load(values + i, lanes), lanes);
            });
        }
    }
    std::memset(to, 0, static_cast<std::size_t>((padded - block.rows) * block.cols) * sizeof(To));
}

/// The block in `memory`, without gaps, in its dtype or fp32.
Matrix pack(const Matrix& block, std::int64_t padded, bool widen, std::byte* memory) {
    Matrix packed(reinterpret_cast<float*>(memory), padded, block.cols);
    packed.dtype = widen ? DType::f32 : block.dtype;
    with_compute_type(block.dtype, [&](auto type) {
        using T = decltype(type);
        if (widen) {
            pack_as<float, T>(block, padded, reinterpret_cast<float*>(memory));
        } else {
            pack_as<T, T>(block, padded, reinterpret_cast<T*>(memory));
        }
    });
    return packed;
}

/// The sums of a thread for one block of the result at a time, and its memory.
class BlockSums {
public:
    BlockSums(Gemms& gemms, DType dtype, std::byte* memory)
        : gemms_(gemms),
          widens_(!gemms.native(dtype)),
          gemm_scratch_(memory),
          sums_(reinterpret_cast<float*>(memory + Gemms::scratch_bytes(1))),
          a_(reinterpret_cast<std::byte*>(sums_ + group_rows * group_cols)),
          b_(a_ + group_rows * group_length * 4) {}

    static std::int64_t bytes() {
        return Gemms::scratch_bytes(1) + 4 * (group_rows * group_cols + group_rows * group_length +
                                              group_length * group_cols);
    }

    /// Starts a block of [rows, cols]. GEMMs have `padded` rows.
    void begin(std::int64_t rows, std::int64_t cols, std::int64_t padded) {
        rows_ = rows;
        cols_ = cols;
        padded_ = padded;
        empty_ = true;
    }
    /// += a b^T or a b, where the rows of a and b are contiguous
    enum class Form { second_transposed, plain };
    void add(const Matrix& a, const Matrix& b, Form form) {
        const std::int64_t length = a.cols;
        for (std::int64_t at = 0; at < length; at += group_length) {
            const std::int64_t part = std::min(group_length, length - at);
            const Matrix first = pack(a.block(0, rows_, at, part), padded_, widens_, a_);
            const Matrix second =
                form == Form::plain
                    ? pack(b.block(at, part, 0, cols_), part, widens_, b_)
                    : pack(b.block(0, cols_, at, part), cols_, widens_, b_).transposed();
            multiply(first, second);
        }
    }
    /// += a^T b
    void add_first_transposed(const Matrix& a, const Matrix& b) {
        for (std::int64_t at = 0; at < a.rows; at += group_length) {
            const std::int64_t part = std::min(group_length, a.rows - at);
            const std::int64_t padded = round_up(part, size_unit);
            multiply(pack(a.block(at, part, 0, rows_), padded, widens_, a_).transposed(),
                     pack(b.block(at, part, 0, cols_), padded, widens_, b_));
        }
    }

    /// to = sums, or to += sums, rounded once; `bias`, of the type of `to` or null, is added to
    /// each row before.
    void store_to(const Matrix& to, bool accumulate, const std::byte* bias = nullptr) const {
        with_compute_type(to.dtype, [&](auto type) {
            auto* target = reinterpret_cast<decltype(type)*>(to.data);
            const auto* added = reinterpret_cast<const decltype(type)*>(bias);
            for (std::int64_t row = 0; row < rows_; ++row) {
                auto* values = target + row * to.row_stride;
                for_vectors(0, cols_, [&](std::int64_t i, auto lanes) {
                    Vec8 x = empty_ ? Vec8(0.0f) : load(sums_ + row * cols_ + i, lanes);
                    if (accumulate) x = x + load(values + i, lanes);
                    if (added != nullptr) x = x + load(added + i, lanes);
                    store(values + i, x, lanes);
                });
            }
        });
    }

private:
    void multiply(const Matrix& a, const Matrix& b) {
        const Gemm gemm = {
            .a = a, .b = b, .c = Matrix(sums_, a.rows, b.cols), .accumulate = !empty_};
        gemms_.multiply_alone(omp_get_thread_num(), gemm, gemm_scratch_);
        empty_ = false;
    }

    Gemms& gemms_;
    bool widens_;  ///< operands to fp32
    std::byte* gemm_scratch_;
    float* sums_;
    std::byte* a_;
    std::byte* b_;
    std::int64_t rows_ = 0;
    std::int64_t cols_ = 0;
    std::int64_t padded_ = 0;
    bool empty_ = true;
};

/// Runs f(i, sums) for each i in [0, count); each takes some `work` multiplications.
void for_blocks(std::int64_t count, std::int64_t work, DType dtype, Gemms& gemms, Scratch& scratch,
                const auto& f) {
    const int threads = omp_get_max_threads();
    gemms.prepare_threads(threads);
    std::byte* memory = scratch.take_bytes(threads * BlockSums::bytes());
    parallel_items(count, work, [&](std::int64_t i) {
        BlockSums sums(gemms, dtype, memory + omp_get_thread_num() * BlockSums::bytes());
        f(i, sums);
    });
}

/// Blocks of the rows of each expert.
class RowBlocks {
public:
    RowBlocks(const Tensor& offsets, const Gemms& gemms)
        : offsets_(offsets.as<std::int32_t>()),
          experts_(offsets.elements() - 1),
          independent_(gemms.has_independent_rows()) {
        for (std::int64_t e = 0; e < experts_; ++e)
            count_ += blocks_of(e);
    }
    struct Block {
        std::int64_t expert, begin, rows, padded;
    };
    std::int64_t count() const { return count_; }
    Block operator[](std::int64_t index) const {
        std::int64_t expert = 0;
        for (; index >= blocks_of(expert); ++expert)
            index -= blocks_of(expert);
        const std::int64_t begin = offsets_[expert] + index * size();
        const std::int64_t rows = std::min(size(), offsets_[expert + 1] - begin);
        return {expert, begin, rows, independent_ ? round_up(rows, size_unit) : size()};
    }

private:
    std::int64_t size() const { return independent_ ? group_rows : fixed_rows; }
    std::int64_t blocks_of(std::int64_t expert) const {
        return div_ceil(std::int64_t{offsets_[expert + 1]} - offsets_[expert], size());
    }

    const std::int32_t* offsets_;
    std::int64_t experts_;
    bool independent_;
    std::int64_t count_ = 0;
};

/// The dims of a weight [P, E, O, I], and those of one that is a single matrix.
struct Weight {
    std::int64_t parts, experts, outputs, inputs;
    explicit Weight(const Tensor& weight)
        : parts(weight.size(0)),
          experts(weight.size(1)),
          outputs(weight.size(2)),
          inputs(weight.size(3)) {}
};

/// A weight of one expert: its parts are adjacent.
Tensor one_matrix(const Tensor& weight) {
    return weight.view({weight.size(0) * weight.size(2), weight.size(3)});
}

/// True for a mixture of one expert, which computes as a linear layer does, to the bit. The only
/// expert of a rank among several has `expected` rows: there the bits of a row may not depend on
/// their number.
bool is_one_layer(const Weight& weight, std::int64_t expected) {
    return weight.experts == 1 && expected == 0;
}

std::int64_t rows_of_experts(const Tensor& offsets) {
    return offsets.as<std::int32_t>()[offsets.elements() - 1];
}

Tensor first_rows(const Tensor& rows, std::int64_t count) {
    return rows.slice(0, 0, count);
}

/// The bias [P, E, O] of a matrix from an output on; null if there is none.
const std::byte* bias_at(const Tensor& bias, std::int64_t part, std::int64_t expert,
                         std::int64_t output) {
    if (bias.empty()) return nullptr;
    const Tensor row = bias.at(part).at(expert);
    return row.data() + output * size_of(row.dtype());
}

}  // namespace

void run(const GroupedForward& args, Gemms& gemms, Scratch& scratch) {
    const Weight dims(args.weight);
    const std::int64_t rows = rows_of_experts(args.offsets);
    if (rows == 0) return;
    if (is_one_layer(dims, args.expected)) {
        return run(LinearForward{.x = first_rows(args.x, rows),
                                 .weight = one_matrix(args.weight),
                                 .bias = args.bias.empty() ? args.bias
                                                           : args.bias.view({args.bias.elements()}),
                                 .y = first_rows(args.y, rows)},
                   gemms, scratch);
    }
    const Matrix x(args.x);
    const Matrix y(args.y);
    const RowBlocks blocks(args.offsets, gemms);
    const std::int64_t col_blocks = div_ceil(dims.outputs, group_cols);
    const std::int64_t columns = dims.parts * col_blocks;
    for_blocks(blocks.count() * columns, group_rows * dims.inputs, args.x.dtype(), gemms, scratch,
               [&](std::int64_t i, BlockSums& sums) {
                   const RowBlocks::Block block = blocks[i / columns];
                   const std::int64_t part = i % columns / col_blocks;
                   const std::int64_t col = i % col_blocks * group_cols;
                   const std::int64_t cols = std::min(group_cols, dims.outputs - col);
                   const Matrix weight(args.weight.at(part).at(block.expert));
                   sums.begin(block.rows, cols, block.padded);
                   sums.add(x.block(block.begin, block.rows, 0, dims.inputs),
                            weight.block(col, cols, 0, dims.inputs),
                            BlockSums::Form::second_transposed);
                   sums.store_to(y.block(block.begin, block.rows, part * dims.outputs + col, cols),
                                 false, bias_at(args.bias, part, block.expert, col));
               });
}

void run(const GroupedInputGrad& args, Gemms& gemms, Scratch& scratch) {
    const Weight dims(args.weight);
    const std::int64_t rows = rows_of_experts(args.offsets);
    if (rows == 0) return;
    if (is_one_layer(dims, args.expected)) {
        return run(LinearInputGrad{.dy = first_rows(args.dy, rows),
                                   .weight = one_matrix(args.weight),
                                   .gelu_input = {},
                                   .dx = first_rows(args.dx, rows)},
                   gemms, scratch);
    }
    const Matrix dy(args.dy);
    const Matrix dx(args.dx);
    const RowBlocks blocks(args.offsets, gemms);
    const std::int64_t columns = div_ceil(dims.inputs, group_cols);
    for_blocks(blocks.count() * columns, group_rows * dims.parts * dims.outputs, args.dy.dtype(),
               gemms, scratch, [&](std::int64_t i, BlockSums& sums) {
                   const RowBlocks::Block block = blocks[i / columns];
                   const std::int64_t col = i % columns * group_cols;
                   const std::int64_t cols = std::min(group_cols, dims.inputs - col);
                   sums.begin(block.rows, cols, block.padded);
                   for (std::int64_t part = 0; part < dims.parts; ++part) {
                       const Matrix weight(args.weight.at(part).at(block.expert));
                       sums.add(
                           dy.block(block.begin, block.rows, part * dims.outputs, dims.outputs),
                           weight.block(0, dims.outputs, col, cols), BlockSums::Form::plain);
                   }
                   sums.store_to(dx.block(block.begin, block.rows, col, cols), false);
               });
}

void run(const GroupedWeightGrad& args, Gemms& gemms, Scratch& scratch) {
    const Weight dims(args.dweight);
    const std::int64_t rows = rows_of_experts(args.offsets);
    if (rows == 0) {
        if (!args.accumulate) run(Fill{.x = args.dweight, .value = 0});
        return;
    }
    if (is_one_layer(dims, args.expected)) {
        return run(LinearWeightGrad{.x = first_rows(args.x, rows),
                                    .dy = first_rows(args.dy, rows),
                                    .dweight = one_matrix(args.dweight),
                                    .dbias = {},
                                    .accumulate = args.accumulate},
                   gemms, scratch);
    }
    const auto* offsets = args.offsets.as<std::int32_t>();
    const Matrix x(args.x);
    const Matrix dy(args.dy);
    const std::int64_t row_blocks = div_ceil(dims.outputs, group_rows);
    const std::int64_t col_blocks = div_ceil(dims.inputs, group_cols);
    const std::int64_t blocks = row_blocks * col_blocks;
    for_blocks(dims.experts * dims.parts * blocks,
               div_ceil(rows, dims.experts) * dims.outputs * dims.inputs / blocks, args.x.dtype(),
               gemms, scratch, [&](std::int64_t i, BlockSums& sums) {
                   const std::int64_t expert = i / (dims.parts * blocks);
                   const std::int64_t part = i / blocks % dims.parts;
                   const std::int64_t row = i / col_blocks % row_blocks * group_rows;
                   const std::int64_t col = i % col_blocks * group_cols;
                   const std::int64_t height = std::min(group_rows, dims.outputs - row);
                   const std::int64_t width = std::min(group_cols, dims.inputs - col);
                   const std::int64_t begin = offsets[expert];
                   const std::int64_t count = offsets[expert + 1] - begin;
                   if (count == 0 && args.accumulate) return;
                   sums.begin(height, width, height);
                   sums.add_first_transposed(
                       dy.block(begin, count, part * dims.outputs + row, height),
                       x.block(begin, count, col, width));
                   const Matrix dweight(args.dweight.at(part).at(expert));
                   sums.store_to(dweight.block(row, height, col, width), args.accumulate);
               });
}

std::int64_t grouped_scratch_bytes(DType compute, int threads) {
    return std::max(linear_scratch_bytes(compute, threads), threads * BlockSums::bytes());
}

}  // namespace gptrain::cpu
