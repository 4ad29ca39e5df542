// Reusable host memory of a backend, for recurring operations.
#pragma once

#include <algorithm>
#include <vector>

#include "backend/backend.h"

namespace gptrain {

/// Hands out buffers and takes them back. Allocates only if no spare buffer is large enough.
class HostMemory {
public:
    explicit HostMemory(Backend& backend) : backend_(backend) {}

    Buffer take(std::int64_t bytes) {
        const auto fits = std::find_if(spare_.begin(), spare_.end(), [&](const Buffer& buffer) {
            return buffer.bytes() >= bytes;
        });
        if (fits != spare_.end()) {
            Buffer buffer = std::move(*fits);
            spare_.erase(fits);
            return buffer;
        }
        // A buffer too small now would be too small next time.
        if (!spare_.empty()) {
            held_ -= spare_.back().bytes();
            spare_.pop_back();
        }
        Buffer buffer = backend_.allocate(round_up(bytes, Arena::alignment), MemorySpace::host);
        held_ += buffer.bytes();
        return buffer;
    }

    void release(Buffer buffer) {
        const auto larger = std::find_if(spare_.begin(), spare_.end(), [&](const Buffer& other) {
            return other.bytes() >= buffer.bytes();
        });
        spare_.insert(larger, std::move(buffer));
    }

    /// Bytes allocated and not yet freed.
    std::int64_t held() const { return held_; }

private:
    Backend& backend_;
    std::vector<Buffer> spare_;  ///< by ascending size
    std::int64_t held_ = 0;
};

}  // namespace gptrain
