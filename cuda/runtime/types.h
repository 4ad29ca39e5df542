// Types that cuda/runtime/runtime.h shares with its twin in the emulator.
#pragma once

#include <cstdint>
#include <string>

// The pointees of cudaStream_t and cudaEvent_t.
struct CUstream_st;
struct CUevent_st;

namespace gptrain::cuda {

/// Properties of one device.
struct DeviceProperties {
    int index = 0;  ///< among the visible devices
    std::string name;
    std::string uuid;
    int major = 0;  ///< compute capability
    int minor = 0;
    int multiprocessors = 0;
    std::int64_t shared_bytes = 0;          ///< maximum per block
    std::int64_t multiprocessor_bytes = 0;  ///< shared memory of a multiprocessor
    std::int64_t l2_bytes = 0;
    std::int64_t memory_bytes = 0;
};

/// Free and total bytes of device memory.
struct MemoryInfo {
    std::int64_t free;
    std::int64_t total;
};

/// `rows` rows of `row_bytes` each; consecutive rows start to_stride and from_stride bytes apart.
struct RowCopy {
    void* to;
    std::int64_t to_stride;
    const void* from;
    std::int64_t from_stride;
    std::int64_t row_bytes;
    std::int64_t rows;
};

/// Launch parameters. Grids have at most 2^31 - 1 by 65535 by 65535 blocks.
struct LaunchShape {
    std::int64_t blocks = 1;  ///< x
    int threads = 0;
    std::int64_t shared_bytes = 0;
    std::int64_t blocks_y = 1;
    std::int64_t blocks_z = 1;
    int cluster_blocks = 1;  ///< consecutive blocks that run together; divides `blocks`
};

}  // namespace gptrain::cuda
