#include "checkpoint/snapshot.h"

#include <algorithm>
#include <cstring>
#include <emmintrin.h>

#include "base/parallel_for.h"
#include "checkpoint/manifest.h"

namespace gptrain {
namespace {

/// memcpy that bypasses the caches, because nobody reads the copy soon. `to` must be 16-byte
/// aligned.
void copy_past_cache(std::byte* to, const std::byte* from, std::int64_t bytes) {
    std::int64_t i = 0;
    for (; i + 64 <= bytes; i += 64) {
        for (int part = 0; part < 64; part += 16) {
            const auto* source = reinterpret_cast<const __m128i*>(from + i + part);
            _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + part), _mm_loadu_si128(source));
        }
    }
    _mm_sfence();
    std::memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
}

struct Piece {
    std::byte* to;
    const std::byte* from;
    std::int64_t bytes;
};

}  // namespace

std::vector<Tensor> allocate_snapshot(Arena& arena, std::span<const HeldState> states) {
    std::vector<Tensor> snapshot;
    for (const HeldState& state : states)
        snapshot.push_back(arena.allocate(state.values.dtype(), {state.shard.elements()}));
    return snapshot;
}

void take_snapshot(Backend& backend, std::span<const Tensor> snapshot,
                   std::span<const HeldState> states) {
    if (!backend.is_host()) {
        for (std::size_t i = 0; i < states.size(); ++i)
            backend.copy(snapshot[i], states[i].values);
        backend.synchronize();
        return;
    }
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < states.size(); ++i) {
        const std::int64_t bytes = snapshot[i].bytes();
        for (std::int64_t at = 0; at < bytes; at += checkpoint_block_bytes) {
            pieces.push_back({snapshot[i].data() + at, states[i].values.data() + at,
                              std::min(checkpoint_block_bytes, bytes - at)});
        }
    }
    parallel_for(std::ssize(pieces), checkpoint_threads, [&](std::int64_t i) {
        const auto& [to, from, bytes] = pieces[static_cast<std::size_t>(i)];
        copy_past_cache(to, from, bytes);
    });
}

}  // namespace gptrain
