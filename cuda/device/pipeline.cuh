// The roles of warps and the rings of buffers that kernels for sm_90a share. Of a block's three
// warpgroups the first one loads and stores, the others compute.
#pragma once

#include "cuda/device/hopper.cuh"

namespace gptrain::cuda::sm90 {

constexpr int group_warps = 4;
constexpr int group_threads = group_warps * warp_threads;
/// Bytes in a row of a panel, the widest that a bulk copy swizzles.
constexpr int row_bytes = 128;
/// The most shared memory that a device of compute capability 9.0 grants a block.
constexpr std::int64_t shared_bytes_of_block = 227 * 1024;

/// The position in a ring of buffers: the next buffer, and the parity of the current lap.
template <int buffers>
class Ring {
public:
    __device__ int at() const { return count_ % buffers; }
    __device__ int parity() const { return count_ / buffers % 2; }
    __device__ void advance() { count_ = (count_ + 1) % (2 * buffers); }

private:
    int count_ = 0;
};

/// A ring buffer's barriers: full when its data has arrived, empty when all readers are done.
struct BufferBarriers {
    Barrier full;
    Barrier empty;
};

/// Called by one thread. `readers` arrive at empty.
__device__ inline void init(BufferBarriers& barriers, int readers) {
    cuda::init(barriers.full, 1);
    cuda::init(barriers.empty, readers);
}

}  // namespace gptrain::cuda::sm90
