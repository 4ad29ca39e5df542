#include "cuda/runtime/versions.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include "base/text.h"
#include "cuda/runtime/probe.h"

namespace gptrain::cuda {

std::string library_versions() {
    return text("CUDA ", cuda_version_text(CUDART_VERSION), ", built for cuBLASLt ",
                CUBLAS_VER_MAJOR, ".", CUBLAS_VER_MINOR, ".", CUBLAS_VER_PATCH, " and NCCL ",
                NCCL_MAJOR, ".", NCCL_MINOR, ".", NCCL_PATCH);
}

}  // namespace gptrain::cuda
