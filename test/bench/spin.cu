#include "spin.h"

#include "cuda/device/device.cuh"

namespace gptrain::bench {
namespace {

constexpr int threads = 512;
constexpr std::int64_t shared_bytes = 96 * 1024;

__global__ void __launch_bounds__(threads) spin_kernel(const unsigned* flag) {
    while (cuda::load_acquire(flag) == 0)
        cuda::spin_pause();
}

}  // namespace

Spinner::Spinner(int blocks) : flag_(cuda::allocate(sizeof(unsigned), MemorySpace::device)) {
    set_flag(0);
    cuda::launch(spins_, {.blocks = blocks, .threads = threads, .shared_bytes = shared_bytes},
                 spin_kernel, reinterpret_cast<const unsigned*>(flag_));
}

Spinner::~Spinner() {
    set_flag(1);
    spins_.synchronize();
    cuda::release(flag_, MemorySpace::device);
}

void Spinner::set_flag(int value) {
    cuda::set_bytes(flag_, value, sizeof(unsigned), stops_);
    stops_.synchronize();
}

}  // namespace gptrain::bench
