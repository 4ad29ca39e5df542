// Which memory a kernel may touch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gptrain::emulator {

/// Memory that kernels may use from now on; its contents are NaN in every floating-point type.
std::byte* allocate(std::int64_t bytes);
void release(std::byte* data) noexcept;

/// Whether that was taken from there.
bool is_allocated(const void* p, std::int64_t bytes);

/// A fault unless [p, p + bytes) lies in allocated or in the block's shared memory and p is a
/// multiple of `alignment`.
void check_access(const void* p, std::size_t bytes, std::size_t alignment, const char* what);
/// The same for memory that must be shared.
void check_shared(const void* p, std::size_t bytes, std::size_t alignment, const char* what);
/// Offset of p from the beginning of the block's shared memory.
std::int64_t shared_offset(const void* p);

}  // namespace gptrain::emulator
