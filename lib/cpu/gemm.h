// GEMMs by oneDNN, which only gemm.cpp includes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/matrix.h"
#include "backend/scratch.h"

namespace gptrain::cpu {

/// c = a b, or c += a b. `bias` (a row of c's width and a's dtype; not with `accumulate`) is added
/// to every row. a and b are both fp32 or both bf16; c has their dtype or is fp32, and is rounded
/// once.
struct Gemm {
    Matrix a;
    Matrix b;
    Matrix c;
    const std::byte* bias = nullptr;
    bool accumulate = false;
};

/// oneDNN's matmul primitives, created once for each shape. Sums are fp32; fp32 operands are used
/// at full precision.
class Gemms {
public:
    Gemms();
    ~Gemms();

    /// True if oneDNN multiplies this type on this machine.
    bool native(DType dtype) const {
        return dtype == DType::f32 || (dtype == DType::bf16 && bf16_);
    }
    /// Takes scratch_bytes() of the scratch memory.
    void multiply(const Gemm& gemm, Scratch& scratch);
    /// Splits the GEMM into parts if oneDNN needs more than `scratch`.
    void multiply_within(const Gemm& gemm, std::span<std::byte> scratch);

    /// Lets as many threads multiply alone.
    void prepare_threads(int threads);
    /// For threads of a parallel region, from 0: each multiplies by itself, in one piece. Takes
    /// scratch_bytes(1).
    void multiply_alone(int thread, const Gemm& gemm, std::byte* scratch);
    /// True if the bits of a row of c depend on neither the other rows nor their number, where that
    /// is a multiple of 16.
    bool has_independent_rows() const { return independent_rows_; }

    /// Enough for most GEMMs in one piece.
    static std::int64_t scratch_bytes(int threads);

private:
    class Primitives;
    std::unique_ptr<Primitives> primitives_;
    std::vector<std::unique_ptr<Primitives>> by_thread_;
    bool bf16_ = false;
    bool independent_rows_ = false;
};

/// "oneDNN 2.6.3": the library in use.
std::string onednn_version();

}  // namespace gptrain::cpu
