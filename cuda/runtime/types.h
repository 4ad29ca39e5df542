// What cuda/runtime/runtime.h and its twin in the emulator say in the same words.
#pragma once

#include <cstdint>
#include <string>

// What cudaStream_t and cudaEvent_t point to.
struct CUstream_st;
struct CUevent_st;

namespace gptrain::cuda {

/// What one device is and offers.
struct DeviceFacts {
    int index = 0;  ///< among the visible devices
    std::string name;
    std::string uuid;
    int major = 0;  ///< of the compute capability
    int minor = 0;
    int multiprocessors = 0;
    std::int64_t shared_bytes = 0;  ///< the most that one block can have
    std::int64_t l2_bytes = 0;
    std::int64_t memory_bytes = 0;
    bool at_least(int wanted_major) const { return major >= wanted_major; }
};

/// Bytes that are free on the device, and all.
struct MemoryInfo {
    std::int64_t free;
    std::int64_t total;
};

/// `rows` runs of `row_bytes`, whose begins lie to_stride and from_stride bytes apart.
struct RowCopy {
    void* to;
    std::int64_t to_stride;
    const void* from;
    std::int64_t from_stride;
    std::int64_t row_bytes;
    std::int64_t rows;
};

/// How a kernel is started. Grids up to 2^31 - 1 by 65535 by 65535 blocks.
struct LaunchShape {
    std::int64_t blocks = 1;  ///< x
    int threads = 0;
    std::int64_t shared_bytes = 0;
    std::int64_t blocks_y = 1;
    std::int64_t blocks_z = 1;
};

}  // namespace gptrain::cuda
