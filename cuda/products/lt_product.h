// One product as cuBLASLt sees it: column-major, described by handles.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/products/product.h"
#include "cuda/runtime/libraries.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

using Algorithm = cublasLtMatmulAlgo_t;

/// Whether gelu or its slope ends the product.
inline bool has_gelu_epilogue(const Product& product) {
    return product.gelu_input.data != nullptr || product.gelu.data != nullptr;
}
/// What the library holds for the product's result and for the matrix beside it: with a gelu behind
/// the sums that is the result, and the sums are what else is written.
inline const Matrix& result_of(const Product& product) {
    return product.gelu.data != nullptr ? product.gelu : product.c;
}
inline const Matrix& auxiliary_of(const Product& product) {
    return product.gelu.data != nullptr ? product.c : product.gelu_input;
}

/// An algorithm as a word, and back; nothing if the word is not one.
std::string to_word(const Algorithm& algorithm);
std::optional<Algorithm> algorithm_from(std::string_view word);

/// All that the choice of an algorithm depends on: sizes, strides, dtypes, epilogue, alignments.
using ProductKey = std::array<std::int64_t, 19>;
ProductKey key_of(const Product& product);
std::string to_word(const ProductKey& key);

/// An open library.
class LtLibrary {
public:
    LtLibrary() : functions(open_cublas_lt()) {
        check(functions.create(&handle_), "cublasLtCreate");
    }
    LtLibrary(const LtLibrary&) = delete;
    LtLibrary& operator=(const LtLibrary&) = delete;
    ~LtLibrary() { functions.destroy(handle_); }

    cublasLtHandle_t handle() const { return handle_; }
    /// A failure is an Error (bug), a lack of memory one of code `usage`.
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

/// The description of all products with one key; addresses are given with each run.
class LtProduct {
public:
    LtProduct(const LtLibrary& library, const Product& product);

    /// Algorithms that give the same bits every time and sum in fp32, the one that the library
    /// holds for the fastest first; at most `most`, none where the library has none.
    std::vector<Algorithm> candidates(int most, std::int64_t workspace_bytes) const;
    /// Whether the library runs this algorithm here.
    bool runs(const Algorithm& algorithm, std::int64_t workspace_bytes) const;
    /// Issues the product; the status says whether that could be.
    cublasStatus_t run(const Product& product, const Algorithm& algorithm, const Stream& stream,
                       std::byte* workspace, std::int64_t workspace_bytes) const;

private:
    template <class T>
    void set(cublasLtMatmulDescAttributes_t which, const T& value) const {
        library_.check(library_.functions.desc_set(operation_.get(), which, &value, sizeof value),
                       "cublasLtMatmulDescSetAttribute");
    }
    void set_epilogue(const Product& product) const;
    void set_addresses(const Product& product) const;

    const LtLibrary& library_;
    LtHandle<cublasLtMatmulDesc_t> operation_;
    LtHandle<cublasLtMatrixLayout_t> a_;  ///< our b, see lt_product.cpp
    LtHandle<cublasLtMatrixLayout_t> b_;  ///< our a
    LtHandle<cublasLtMatrixLayout_t> c_;
    std::array<std::int64_t, 3> alignments_;  ///< of the library's a, b and c
};

}  // namespace gptrain::cuda
