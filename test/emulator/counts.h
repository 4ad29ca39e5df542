// Counts what kernels ask of shared memory and of the tensor cores (docs/kernels.md).
//
// Shared memory has 32 banks of 4 bytes. A wavefront serves one word of each bank, for all lanes
// that want that word. An access of a warp takes a wavefront for each 128 bytes that its lanes
// want, in the order of the lanes, and more where different words of one bank are wanted: these are
// its bank conflicts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gptrain::emulator {

/// Of one launch.
struct Counts {
    std::int64_t products = 0;    ///< matrix instructions, each counted once for each of its warps
    double product_flops = 0;     ///< of those
    std::int64_t wavefronts = 0;  ///< of shared memory
    std::int64_t conflicts = 0;   ///< wavefronts that only bank conflicts cause

    Counts& operator+=(const Counts& other);
};

/// Collects the counts of launches while it exists, one for each in their order. The emulator runs
/// several times slower meanwhile.
class Counting {
public:
    Counting();
    Counting(const Counting&) = delete;
    Counting& operator=(const Counting&) = delete;
    ~Counting();

    std::vector<Counts> launches;
};

bool is_counting();
void count_launch();
/// A plain access of a thread of the block, by the instruction at `place`. Accesses by the warp's
/// other lanes at the same instruction and repetition belong to it.
struct PlainAccess {
    const void* block;
    int thread;
    const void* p;
    std::size_t bytes;
    const void* place;
};
void count_access(const PlainAccess& access);
/// Accesses of 16 bytes by the lanes of a warp.
void count_rows(const std::vector<const void*>& rows);
/// A transfer that uses all banks.
void count_bytes(std::int64_t bytes);
void count_products(std::int64_t warps, double flops);
/// Counts the accesses that the threads of a block have left open.
void count_end(const void* block);

}  // namespace gptrain::emulator
