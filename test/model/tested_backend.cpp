#include "cpu/cpu_backend.h"
#include "tiny_run.h"

namespace gptrain::test {

std::unique_ptr<Backend> tested_backend() {
    return cpu::make_backend();
}

}  // namespace gptrain::test
