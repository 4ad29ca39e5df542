#include "cuda/cuda_backend.h"
#include "tiny_run.h"

namespace gptrain::test {

std::unique_ptr<Backend> tested_backend() {
    return make_cuda_backend();
}

}  // namespace gptrain::test
