// Twin of cuda/products/products.cpp: products by the CPU backend's oneDNN, on copies in fp32.
// Epilogues are always done apart, so that the caller's own kernels are run.
#include "cuda/products/products.h"

#include <cstring>
#include <omp.h>
#include <vector>

#include "base/float8.h"
#include "cpu/products.h"
#include "emulator/memory.h"

namespace gptrain::cuda {
namespace {

float value_at(const Matrix& matrix, std::int64_t row, std::int64_t col) {
    const std::byte* at =
        matrix.data + (row * matrix.row_stride + col * matrix.col_stride) * size_of(matrix.dtype);
    const auto as = [at](auto type) {
        std::memcpy(&type, at, sizeof type);
        return to_float(type);
    };
    switch (matrix.dtype) {
        case DType::bf16: return as(Bf16{});
        case DType::f16: return as(F16{});
        case DType::f8e4m3: return as(F8E4M3{}) * *matrix.scale;
        case DType::f8e5m2: return as(F8E5M2{}) * *matrix.scale;
        default: return as(float{});
    }
}

std::vector<float> values_of(const Matrix& matrix) {
    std::vector<float> values(static_cast<std::size_t>(matrix.rows * matrix.cols));
    for (std::size_t i = 0; float& value : values) {
        const auto index = static_cast<std::int64_t>(i++);
        value = value_at(matrix, index / matrix.cols, index % matrix.cols);
    }
    return values;
}

void write(const Matrix& matrix, const std::vector<float>& values) {
    for (std::size_t i = 0; const float value : values) {
        const auto index = static_cast<std::int64_t>(i++);
        std::byte* at = matrix.data + (index / matrix.cols * matrix.row_stride +
                                       index % matrix.cols * matrix.col_stride) *
                                          size_of(matrix.dtype);
        const auto as = [&](auto type) {
            type = from_float<decltype(type)>(value);
            std::memcpy(at, &type, sizeof type);
        };
        switch (matrix.dtype) {
            case DType::bf16: as(Bf16{}); break;
            case DType::f16: as(F16{}); break;
            default: as(float{});
        }
    }
}

}  // namespace

class Products::Library {
public:
    void multiply(const Product& product) {
        std::vector<float> a = values_of(product.a);
        std::vector<float> b = values_of(product.b);
        std::vector<float> c = values_of(product.c);
        Scratch scratch(memory_.data(), std::ssize(memory_) / 256 * 256);
        products_.multiply({.a = gptrain::Matrix(a.data(), product.a.rows, product.a.cols),
                            .b = gptrain::Matrix(b.data(), product.b.rows, product.b.cols),
                            .c = gptrain::Matrix(c.data(), product.c.rows, product.c.cols),
                            .accumulate = product.accumulate},
                           scratch);
        write(product.c, c);
    }

private:
    gptrain::Products products_;
    std::vector<std::byte> memory_ = std::vector<std::byte>(
        static_cast<std::size_t>(gptrain::Products::scratch_bytes(omp_get_max_threads())) + 256);
};

Products::Products(const DeviceFacts& /*device*/, TuningTable* /*tuning*/)
    : library_(std::make_unique<Library>()) {}

Products::~Products() = default;

void Products::tune(const std::function<void()>& work) {
    work();
}
bool Products::use_table(std::string_view /*table*/) {
    return true;
}

void Products::multiply(const Product& product, const OpContext& context) {
    GPTRAIN_CHECK(!product.has_epilogue(), "an epilogue that cannot be done apart");
    // As much as the real ones take, for the time of the call.
    Scratch workspace = context.scratch;
    workspace.take_bytes(workspace_bytes);
    context.stream.issue([library = library_.get(), product] { library->multiply(product); });
}

void Products::multiply(const Product& /*product*/, const std::function<void()>& apart,
                        const OpContext& /*context*/) {
    apart();
}

}  // namespace gptrain::cuda
