// Attention over a sequence that ranks share: its cases, one rank's tensors, and its cost.
#pragma once

#include <string>

#include "meter/meter_backend.h"
#include "model/context_attention.h"

namespace gptrain::test {

struct ContextCase {
    ContextMethod method = ContextMethod::ring;
    DType dtype = DType::f32;
    std::int64_t sequences = 2;
    std::int64_t seq_length = 48;
    std::int64_t heads = 4;
    std::int64_t groups = 2;
    std::int64_t head_dim = 16;
    float dropout = 0;
    bool documents = false;   ///< first_visible is given
    std::int64_t pieces = 1;  ///< as in ContextRanks
    bool bidirectional = false;
    bool scores = false;  ///< with a soft cap, ALiBi and sinks

    /// As in ContextForward.
    std::int64_t first_query() const { return bidirectional ? seq_length : 0; }
};
std::string text_of(const ContextCase& context_case);

/// Reserves one rank's arguments.
ContextBackward reserve(Arena& arena, const ContextCase& context_case, std::int64_t ranks);

/// Cost of forward and backward on one rank, by the meter.
struct ContextCost {
    std::int64_t sent_forward = 0;  ///< bytes
    std::int64_t sent_backward = 0;
    std::int64_t memory = 0;  ///< peak bytes of the workspace
    double work = 0;
};
ContextCost measure(const ContextCase& context_case, int ranks, int rank);

}  // namespace gptrain::test
