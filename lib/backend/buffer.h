// Ownership of backend memory: buffers, and arenas that hand out tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "tensor/tensor.h"

namespace gptrain {

class Backend;

enum class MemorySpace {
    device,  ///< memory that ops compute in
    host,    ///< pinned host memory, for fast copies; ops can use it too, at the link's speed
};

/// Owns one allocation and frees it. The backend must outlive it.
class Buffer {
public:
    Buffer() = default;
    Buffer(Backend& backend, MemorySpace space, std::byte* data, std::int64_t bytes)
        : backend_(&backend), space_(space), data_(data), bytes_(bytes) {}
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Buffer();

    std::byte* data() const { return data_; }
    std::int64_t bytes() const { return bytes_; }

private:
    void swap(Buffer& other) noexcept {
        std::swap(backend_, other.backend_);
        std::swap(space_, other.space_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
    }

    Backend* backend_ = nullptr;
    MemorySpace space_ = MemorySpace::device;
    std::byte* data_ = nullptr;
    std::int64_t bytes_ = 0;
};

/// A stack allocator over one allocation of fixed capacity, which the plan determines. Exceeding it
/// is an Error (bug) that names the arena.
class Arena {
public:
    /// Alignment of every tensor, in bytes.
    static constexpr std::int64_t alignment = 256;

    Arena(Backend& backend, MemorySpace space, std::string name, std::int64_t capacity);

    /// Memory with undefined contents.
    Tensor allocate(DType dtype, const Shape& shape);
    std::int64_t used() const { return used_; }
    /// The largest number of bytes in use so far.
    std::int64_t peak() const { return peak_; }
    std::int64_t capacity() const { return buffer_.bytes(); }

private:
    friend class ArenaFrame;
    std::string name_;
    Buffer buffer_;
    std::int64_t used_ = 0;
    std::int64_t peak_ = 0;
};

/// Frees what was allocated during its lifetime. Later ops of the same backend may write there at
/// once, because they run after those already issued.
class ArenaFrame {
public:
    explicit ArenaFrame(Arena& arena) : arena_(arena), used_(arena.used_) {}
    ArenaFrame(const ArenaFrame&) = delete;
    ArenaFrame& operator=(const ArenaFrame&) = delete;
    ~ArenaFrame() { arena_.used_ = used_; }

private:
    Arena& arena_;
    std::int64_t used_;
};

}  // namespace gptrain
