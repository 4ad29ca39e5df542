// Matrix products by cuBLASLt, which is seen in products.cpp and lt_product.cpp alone. The emulator
// has a twin of these: products by the CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "cuda/products/product.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

class TuningTable;

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
