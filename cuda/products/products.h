// Matrix products by cuBLASLt, which is seen in products.cpp and lt_product.cpp alone. The emulator
// has a twin of these: products by the CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "cuda/runtime/context.h"
#include "tensor/tensor.h"

namespace gptrain::cuda {

class TuningTable;

/// A matrix in device memory; one of its strides is 1. In 8 bits (f8e4m3, f8e5m2) its elements are
/// what is stored times a scale that lies in device memory.
struct Matrix {
    std::byte* data = nullptr;
    DType dtype = DType::f32;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t row_stride = 0;
    std::int64_t col_stride = 1;
    const float* scale = nullptr;  ///< with 8 bits, else null

    Matrix() = default;
    /// A tensor of rank 2 with any row stride.
    explicit Matrix(const Tensor& tensor)
        : data(tensor.data()),
          dtype(tensor.dtype()),
          rows(tensor.size(0)),
          cols(tensor.size(1)),
          row_stride(tensor.stride(0)) {
        GPTRAIN_CHECK(tensor.rank() == 2 && (tensor.stride(1) == 1 || cols == 1), "rows of ",
                      tensor.shape().to_text());
    }

    Matrix(const Tensor& float8, const Tensor& float8_scale) : Matrix(float8) {
        scale = float8_scale.as<float>();
    }

    bool is_float8() const { return size_of(dtype) == 1; }
    Matrix transposed() const {
        Matrix result = *this;
        std::swap(result.rows, result.cols);
        std::swap(result.row_stride, result.col_stride);
        return result;
    }
};

/// c = a b, or c += a b with `accumulate`.
/// `bias` (a row of c's width, of c's dtype) is added to every row before the sum is rounded.
/// `gelu_input` u (of c's shape and dtype, any row stride): c = (a b) gelu'(u), tanh form, rounded
/// once. At most one of the three.
/// `gelu` (of c's shape and dtype): gelu = gelu(a b + bias) as well, tanh form, from the sums
/// before they are rounded to c; without `gelu_input` and `accumulate`. a and b are both fp32, both
/// bf16 or both fp16, and c is of their dtype or fp32; or both are in 8 bits, not both f8e5m2, and
/// the elements that are multiplied lie side by side in both (a's col_stride and b's row_stride are
/// 1), and c is bf16, fp16 or fp32. c's col_stride is 1; c overlaps none of the others.
struct Product {
    Matrix a;                         ///< [M, K]
    Matrix b;                         ///< [K, N]
    Matrix c;                         ///< [M, N]
    const std::byte* bias = nullptr;  ///< [N]
    Matrix gelu_input = {};           ///< [M, N]; without data: not wanted
    Matrix gelu = {};                 ///< [M, N]; without data: not wanted
    bool accumulate = false;
    bool rough_sums = false;  ///< with 8 bits: sums may have fewer bits than fp32, which is faster

    bool has_epilogue() const {
        return bias != nullptr || gelu_input.data != nullptr || gelu.data != nullptr;
    }
};

/// Sums are in fp32 (but see `rough_sums`), fp32 factors are taken as they are (never TF32). How a
/// product is computed, and whether its epilogue is done apart, depends on its sizes, strides,
/// dtypes and epilogue, on the power of two, up to 16, at whose multiples its rows begin, on the
/// device, on the library, and on the tuning table: on nothing else, so that calls with equal ones
/// give equal bits.
class Products {
public:
    /// Opens the library; Error (usage) where that fails. The algorithms are those of the table,
    /// which this opens and which must outlive it. Where that has no entry, or is null: the
    /// library's first choice, with the epilogue.
    Products(const DeviceFacts& device, TuningTable* tuning);
    ~Products();

    /// Does `work`. For each product in it that the table lacks, several algorithms are timed and
    /// the fastest is noted there, or that doing the epilogue apart is faster; the table is then
    /// saved. c is worth nothing afterwards: sums may have been added several times or never.
    void tune(const std::function<void()>& work);
    /// From now on the table is this one (see TuningTable::take).
    bool use_table(std::string_view table);

    /// A product without an epilogue. In 8 bits M, N and K are multiples of 16, all rows begin at
    /// multiples of 16 bytes, and the device is of compute capability 8.9 or newer; else it is an
    /// Error (usage). Takes `workspace_bytes` of the context's scratch memory.
    void multiply(const Product& product, const OpContext& context);
    /// A product with an epilogue, by one call of the library; or `apart`, which computes the same
    /// in the same context by products without that epilogue and by own kernels. The latter where
    /// the library cannot do the former, and where tuning found it clearly faster.
    void multiply(const Product& product, const std::function<void()>& apart,
                  const OpContext& context);

    static constexpr std::int64_t workspace_bytes = std::int64_t{32} << 20;

private:
    class Library;
    std::unique_ptr<Library> library_;
};

}  // namespace gptrain::cuda
