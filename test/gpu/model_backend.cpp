#include "cuda/cuda_backend.h"
#include "tiny_run.h"

namespace gptrain::test {

std::unique_ptr<Backend> tested_backend() {
    return make_cuda_backend(0, options_of_environment());
}

}  // namespace gptrain::test
