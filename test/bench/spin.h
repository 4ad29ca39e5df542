// Blocks that hold multiprocessors, as the kernels of messages do.
#pragma once

#include "backend/buffer.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::bench {

/// Holds as many multiprocessors of the current device until it is destroyed: each block has most
/// of the shared memory of one, so that no block of a GEMM fits on it, and spins.
class Spinner {
public:
    explicit Spinner(int blocks);
    Spinner(const Spinner&) = delete;
    Spinner& operator=(const Spinner&) = delete;
    ~Spinner();

private:
    void set_flag(int value);

    cuda::Stream spins_{cuda::Stream::Priority::urgent};
    cuda::Stream stops_;
    std::byte* flag_;
};

}  // namespace gptrain::bench
