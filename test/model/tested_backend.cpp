#include "cpu/cpu_backend.h"
#include "tiny_run.h"

namespace gptrain::test {

std::unique_ptr<Backend> tested_backend() {
    return make_cpu_backend();
}

}  // namespace gptrain::test
