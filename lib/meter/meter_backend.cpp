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

void MeterBackend::count(const AdamW& op) {
    for (const AdamWPiece& piece : op.pieces) {
        work_.updates += static_cast<double>(piece.main_param.elements());
    }
}

void MeterBackend::count(const MuonUpdate& op) {
    work_.updates += static_cast<double>(op.main_param.elements());
}

}  // namespace gptrain
