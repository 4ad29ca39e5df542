// One GEMM in cuBLASLt's terms: column-major, described by handles.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/gemm/plan.h"
#include "cuda/runtime/libraries.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// The library's bias vector, which it reads, or where it stores the sums of a's rows.
inline const void* bias_vector_of(const Gemm& gemm) {
    if (gemm.a_sums != nullptr) return gemm.a_sums;
    return gemm.bias;
}

/// Everything that the choice of an algorithm depends on: sizes, strides, dtypes, epilogue,
/// alignments, multiprocessors. The text omits the last one if it is 0.
using GemmKey = std::array<std::int64_t, 20>;
GemmKey key_of(const Gemm& gemm);
std::string to_text(const GemmKey& key);

/// The opened library.
class LtLibrary {
public:
    LtLibrary() : functions(open_cublas_lt()) {
        check(functions.create(&handle_), "cublasLtCreate");
    }
    LtLibrary(const LtLibrary&) = delete;
    LtLibrary& operator=(const LtLibrary&) = delete;
    ~LtLibrary() { functions.destroy(handle_); }

    cublasLtHandle_t handle() const { return handle_; }
    /// Throws an Error if the call failed: `usage` if memory is short, otherwise `bug`.
    void check(cublasStatus_t status, std::string_view call) const;

    const CublasLt functions;

private:
    cublasLtHandle_t handle_ = nullptr;
};

/// Owns a handle of the library.
template <class T>
class LtHandle {
public:
    using Destroy = cublasStatus_t (*)(T);
    LtHandle(T handle, Destroy destroy) : handle_(handle), destroy_(destroy) {}
    LtHandle(LtHandle&& other) noexcept
        : handle_(std::exchange(other.handle_, nullptr)), destroy_(other.destroy_) {}
    LtHandle& operator=(LtHandle&&) = delete;
    ~LtHandle() {
        if (handle_ != nullptr) destroy_(handle_);
    }
    T get() const { return handle_; }

private:
    T handle_;
    Destroy destroy_;
};

/// True if the status means that the library cannot run this algorithm, or has none for this GEMM;
/// another may do. Nothing was issued.
bool is_declined(cublasStatus_t status);

/// The description of all GEMMs with one key; addresses are given with each run.
class LtGemm {
public:
    LtGemm(const LtLibrary& library, const Gemm& gemm);

    /// Deterministic algorithms that sum in fp32, the library's preferred one first; at most
    /// `most`, empty if the library has none.
    std::vector<Algorithm> candidates(int most, std::int64_t workspace_bytes) const;
    /// True if the library can run this algorithm here.
    bool runs(const Algorithm& algorithm, std::int64_t workspace_bytes) const;
    /// Issues the GEMM. The status reports whether the library accepted it.
    cublasStatus_t run(const Gemm& gemm, const Algorithm& algorithm, const Stream& stream,
                       std::byte* workspace, std::int64_t workspace_bytes) const;

private:
    /// False if the library declines the attribute of a GEMM with an epilogue or with scales for
    /// blocks; of another one that is an error.
    bool set(cublasLtMatmulDescAttributes_t which, const auto& value) const {
        const cublasStatus_t status =
            library_.functions.desc_set(operation_.get(), which, &value, sizeof value);
        if (may_decline_ && is_declined(status)) return false;
        library_.check(status, "cublasLtMatmulDescSetAttribute");
        return true;
    }
    bool describe(const Gemm& gemm) const;
    bool set_scales(const Gemm& gemm) const;
    bool set_epilogue(const Gemm& gemm) const;
    bool set_addresses(const Gemm& gemm) const;

    const LtLibrary& library_;
    bool may_decline_;
    LtHandle<cublasLtMatmulDesc_t> operation_;
    LtHandle<cublasLtMatrixLayout_t> a_;  ///< our b, see lt_gemm.cpp
    LtHandle<cublasLtMatrixLayout_t> b_;  ///< our a
    LtHandle<cublasLtMatrixLayout_t> c_;
    std::array<std::int64_t, 3> alignments_;  ///< alignments of the library's a, b and c
    bool described_ = false;                  ///< the library took the whole description
};

}  // namespace gptrain::cuda
