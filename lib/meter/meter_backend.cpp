#include "meter/meter_backend.h"

#include <cstring>

namespace gptrain {
Buffer MeterBackend::allocate(std::int64_t bytes, MemorySpace space) {
    // Any aligned address other than null will do: it is never dereferenced.
    return Buffer(*this, space, reinterpret_cast<std::byte*>(Arena::alignment), bytes);
}

void MeterBackend::download(std::span<std::byte> to, const Tensor& /*from*/) {
    std::memset(to.data(), 0, to.size());
}

std::int64_t MeterBackend::start(HostCopies::Direction direction, std::span<const HostTwin> twins) {
    const auto index = static_cast<std::int64_t>(direction);
    HostCopies copies = {.direction = direction,
                         .number = ++copies_[static_cast<std::size_t>(index)]};
    for (const HostTwin& twin : twins)
        copies.bytes += twin.host.bytes();
    if (listener_ != nullptr) listener_->on_started(copies);
    return copies.number * directions + index;
}

void MeterBackend::join(std::int64_t copies) {
    if (listener_ == nullptr) return;
    listener_->on_joined(static_cast<HostCopies::Direction>(copies % directions),
                         copies / directions);
}

void MeterBackend::count(const AdamW& op) {
    for (const AdamWPiece& piece : op.pieces) {
        work_.updates += static_cast<double>(piece.main_param.elements());
    }
}

void MeterBackend::count(const MuonUpdate& op) {
    work_.updates += static_cast<double>(op.main_param.elements());
}

}  // namespace gptrain
