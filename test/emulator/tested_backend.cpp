// The backend of the model tests when they run in the emulator.
#include "cuda/cuda_backend.h"
#include "emulator/grid.h"
#include "model/tiny_run.h"

namespace gptrain::test {

std::unique_ptr<Backend> tested_backend() {
    emulator::settings() = {
        .order = emulator::Order::shuffled, .major = 8, .minor = 6, .shared_bytes = 99 << 10};
    return cuda::make_backend();
}

}  // namespace gptrain::test
