// Which memory a kernel may access.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/grid.h"

namespace gptrain::emulator {

/// Allocates memory for kernels; it is NaN in every floating-point type.
std::byte* allocate(std::int64_t bytes);
void release(std::byte* data) noexcept;
/// Lets kernels use memory that others have allocated, until `give_back`.
void adopt(std::byte* data, std::int64_t bytes);
void give_back(std::byte* data) noexcept;

/// True if the bytes are inside the shared memory of the running thread's block.
inline bool is_shared(const void* p, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(p);
    const Block& block = *current().block;
    return begin >= block.shared && begin + bytes <= block.shared + block.shape.shared_bytes;
}
/// The block of the running thread's cluster in whose shared memory p is; null if there is none.
inline const Block* owner_of_shared(const void* p) {
    if (is_shared(p, 1)) return current().block;
    const Cluster& cluster = *current().block->cluster;
    if (cluster.blocks.size() == 1) return nullptr;
    const auto* place = static_cast<const std::byte*>(p);
    for (const Block* block : cluster.blocks) {
        if (block != nullptr && place >= block->shared &&
            place < block->shared + block->shape.shared_bytes)
            return block;
    }
    return nullptr;
}
/// The same place in the shared memory of another block of the cluster.
template <class T>
T* place_at(T* p, int rank) {
    const std::ptrdiff_t offset = reinterpret_cast<const std::byte*>(p) - current().block->shared;
    return reinterpret_cast<T*>(block_of_cluster(rank).shared + offset);
}
/// True if the bytes are inside an allocation.
bool is_allocated(const void* p, std::int64_t bytes);

/// A fault unless [p, p + bytes) is in allocated memory or in the block's shared memory, and p is a
/// multiple of `alignment`.
void check_access(const void* p, std::size_t bytes, std::size_t alignment, const char* what);
/// The same, but the memory must be shared.
void check_shared(const void* p, std::size_t bytes, std::size_t alignment, const char* what);
/// Offset of p from the beginning of the block's shared memory.
std::int64_t shared_offset(const void* p);
/// Where shared memory begins in its address space: the system has the first kilobyte.
constexpr std::uint32_t first_shared_address = 1024;

}  // namespace gptrain::emulator
