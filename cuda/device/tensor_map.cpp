#include "cuda/device/tensor_map.h"

#include <array>
#include <cuda.h>
#include <cuda_runtime.h>

#include "base/error.h"

namespace gptrain::cuda {
namespace {

/// Columns of a box: the limit of the swizzle.
constexpr std::int64_t box_columns = 64;

using Encode = decltype(&cuTensorMapEncodeTiled);

/// The driver's function, obtained through the runtime to avoid linking against the driver.
Encode driver_function() {
    constexpr unsigned since_version = 12000;
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t status = cudaGetDriverEntryPointByVersion(
        "cuTensorMapEncodeTiled", &function, since_version, cudaEnableDefault, &found);
    if (status == cudaSuccess && found == cudaDriverEntryPointSuccess && function != nullptr)
        return reinterpret_cast<Encode>(function);
    // Clear the error, or the next launch reports it again.
    static_cast<void>(cudaGetLastError());
    fail(ExitCode::usage,
         "the NVIDIA driver has no cuTensorMapEncodeTiled; install one for CUDA 12.0 or newer");
}

}  // namespace

TensorMap tensor_map(const Tensor& tensor, int rows) {
    static const Encode encode = driver_function();
    static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) &&
                  alignof(TensorMap) >= alignof(CUtensorMap));
    GPTRAIN_CHECK(tensor.rank() == 4 && tensor.dtype() == DType::bf16 &&
                      tensor.size(3) % box_columns == 0 && tensor.stride(3) == 1,
                  "no tensor map of ", tensor.shape().to_text(), " ", name_of(tensor.dtype()));
    // The driver counts dims from the innermost: D, heads, S, B.
    std::array<cuuint64_t, 4> sizes{};
    std::array<cuuint64_t, 3> strides{};
    for (std::size_t i = 0; i < 4; ++i) {
        const int dim = 3 - static_cast<int>(i);
        sizes[i] = static_cast<cuuint64_t>(tensor.size(dim));
        if (i == 0) continue;
        // The stride of a dim of size 1 is never used, but the driver checks it.
        const std::int64_t elements = tensor.size(dim) == 1 ? box_columns : tensor.stride(dim);
        strides[i - 1] = static_cast<cuuint64_t>(elements * size_of(DType::bf16));
    }
    const std::array<cuuint32_t, 4> box = {box_columns, 1, static_cast<cuuint32_t>(rows), 1};
    const std::array<cuuint32_t, 4> steps = {1, 1, 1, 1};
    TensorMap map;
    const CUresult result =
        encode(reinterpret_cast<CUtensorMap*>(&map), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4,
               tensor.data(), sizes.data(), strides.data(), box.data(), steps.data(),
               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    GPTRAIN_CHECK(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled returned ",
                  static_cast<int>(result), " for ", tensor.shape().to_text(), " in boxes of ",
                  rows, " rows");
    return map;
}

}  // namespace gptrain::cuda
