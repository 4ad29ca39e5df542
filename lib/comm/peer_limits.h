// Sizes of messages that are copies between the GPUs of a node.
#pragma once

#include <cstdint>

namespace gptrain {

/// The most ranks between which messages are copies.
constexpr std::int64_t most_peers = 16;

/// Bytes of a piece of a message. Two of them on their way between two ranks hide each other's
/// start.
constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;
constexpr std::int64_t pieces_on_way = 2;

/// Device memory of a rank for the pieces that the other ranks of its group send to it.
constexpr std::int64_t mailbox_bytes(std::int64_t ranks) {
    return (ranks - 1) * pieces_on_way * piece_bytes;
}

}  // namespace gptrain
