#include <cuda.h>
#include <cuda_runtime.h>

#include "base/error.h"
#include "cuda/device/tensor_map.h"

namespace gptrain::cuda {
namespace {

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

TensorMap encode(const TensorMapRequest& request) {
    static const Encode driver_encode = driver_function();
    static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) &&
                  alignof(TensorMap) >= alignof(CUtensorMap));
    static_assert(sizeof(cuuint64_t) == sizeof(std::uint64_t));
    const cuuint32_t steps[4] = {1, 1, 1, 1};
    TensorMap map;
    const CUresult result =
        driver_encode(reinterpret_cast<CUtensorMap*>(&map), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4,
                      request.data, request.sizes, request.stride_bytes, request.box, steps,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    GPTRAIN_CHECK(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled returned ",
                  static_cast<int>(result), " for sizes ", request.sizes[0], " ", request.sizes[1],
                  " ", request.sizes[2], " ", request.sizes[3], " in boxes of ", request.box[2],
                  " rows");
    return map;
}

}  // namespace gptrain::cuda
