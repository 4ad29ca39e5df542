// A bump allocator for the scratch memory of ops.
#pragma once

#include <cstdint>

#include "backend/buffer.h"
#include "tensor/tensor.h"

namespace gptrain {

/// Hands out pieces of the scratch tensor from the front; each op starts over with `reset`. Taking
/// more than is left is an Error (bug): scratch_bytes promised too little.
class Scratch {
public:
    Scratch() = default;
    /// Uses a piece of other memory.
    Scratch(std::byte* data, std::int64_t bytes) : memory_(data, DType::u8, {bytes}) {}

    void use(const Tensor& bytes) {
        GPTRAIN_CHECK(bytes.dtype() == DType::u8 && bytes.contiguous(), "scratch is bytes");
        memory_ = bytes;
        used_ = 0;
    }
    void reset() { used_ = 0; }

    std::byte* take_bytes(std::int64_t bytes) {
        const std::int64_t begin = used_;
        used_ += round_up(bytes, Arena::alignment);
        const std::int64_t available = memory_.empty() ? 0 : memory_.elements();
        GPTRAIN_CHECK(used_ <= available, "an op needs ", used_, " bytes of scratch, but only ",
                      available, " are available");
        return memory_.data() + begin;
    }
    template <class T>
    T* take(std::int64_t count) {
        return reinterpret_cast<T*>(take_bytes(count * static_cast<std::int64_t>(sizeof(T))));
    }

    /// Bytes that `take` of this count uses.
    template <class T>
    static std::int64_t bytes_of(std::int64_t count) {
        return round_up(count * static_cast<std::int64_t>(sizeof(T)), Arena::alignment);
    }

private:
    Tensor memory_;
    std::int64_t used_ = 0;
};

}  // namespace gptrain
