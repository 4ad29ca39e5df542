#include "cuda/cuda_backend.h"
#include "tiny_run.h"

namespace gptrain::test {

std::unique_ptr<Backend> tested_backend() {
    return cuda::make_backend(0, cuda::options_from_environment());
}

}  // namespace gptrain::test
