// How much memory a request and its reply may take, by the largest body of a request: docs/serve.md
// derives from it how much the whole server takes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gptrain {

class BodyRoom {
public:
    /// `body_bytes`: of the largest body; less than 1 MiB counts as 1 MiB.
    explicit BodyRoom(std::int64_t body_bytes)
        : unit_(std::max(body_bytes, std::int64_t{1} << 20)) {}

    /// The bytes of a whole reply.
    std::int64_t reply() const { return 8 * unit_; }
    /// Log-probabilities of a whole reply; each takes at least 32 bytes of it.
    std::int64_t logprobs() const { return reply() / 32; }
    /// The text that ids decode to; JSON may need six bytes for one.
    std::int64_t decoded_text() const { return unit_; }
    /// The part of a stream that its client has not read.
    std::int64_t unread() const { return 4 * unit_; }
    /// The memory for encoding a text.
    std::int64_t encoding() const { return 64 * unit_; }

private:
    std::int64_t unit_;
};

}  // namespace gptrain
