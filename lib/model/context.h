// What the parts of a model are given: resources, sizes, and what flows through them.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/memory.h"
#include "comm/mesh.h"
#include "model/batch.h"
#include "spec/run_plan.h"

namespace gptrain {

/// Resources and settings of a model; passed down, never global. All of it outlives the model.
struct ModelContext {
    Backend& backend;
    const Mesh& mesh;
    Memory& memory;
    const ModelShape& shape;  ///< N, G, F are this rank's, V with padding (local_shape)
    DType compute;
    std::uint64_t seed;
    std::int64_t head_chunk;         ///< rows of logits at a time
    std::int64_t sequences;          ///< B
    bool sequence_parallel = false;  ///< the residual stream is cut along S over tp
    SequenceRows stream_rows = {};   ///< positions of its rows on this rank
    ContextMethod context_method = ContextMethod::ring;

    /// The first row of the vocabulary on this rank.
    std::int64_t vocab_begin() const { return mesh.tp().rank() * shape.vocab; }
    /// Rows of the residual stream of so many rows of a batch.
    std::int64_t stream_length(std::int64_t rows) const {
        return sequence_parallel ? div_exact(rows, mesh.tp().size()) : rows;
    }

    Arena& workspace() const { return memory[MemoryUse::workspace]; }
    /// Memory for the current action in the compute dtype.
    Tensor temporary(const Shape& wanted) const { return workspace().allocate(compute, wanted); }
    Tensor temporary_f32(const Shape& wanted) const {
        return workspace().allocate(DType::f32, wanted);
    }
};

/// One way through the model.
struct Pass {
    const Batch& batch;
    StepRef step;
    bool training = true;  ///< dropout is on

    Dropout dropout(const ModelContext& context, DropoutSite site, std::int64_t layer) const {
        Dropout dropout;
        dropout.probability = training ? static_cast<float>(context.shape.dropout) : 0.0f;
        dropout.seed = context.seed;
        dropout.site = site;
        dropout.layer = narrow<std::uint32_t>(layer);
        dropout.rows = context.stream_rows;
        dropout.head_begin = context.mesh.tp().rank() * context.shape.heads;
        dropout.step = step;
        return dropout;
    }
    /// S of the residual stream.
    std::int64_t stream_length(const ModelContext& context) const {
        return context.stream_length(batch.seq_length());
    }
    std::int64_t stream_tokens(const ModelContext& context) const {
        return context.stream_length(batch.tokens());
    }
};

/// A matrix that linear layers multiply.
struct Measured {
    Tensor values;
    /// fp32 [1]: the largest absolute value, for products in 8 bits. Where it is not given, the
    /// layer that needs it looks for it.
    Tensor maximum;
};

/// Maxima side by side, which one fill clears, given out one after the other.
class Maxima {
public:
    Maxima() = default;  ///< gives out empty tensors
    explicit Maxima(const Tensor& numbers) : numbers_(numbers) {}
    Tensor next() { return numbers_.empty() ? Tensor() : numbers_.slice(0, given_++, 1); }

private:
    Tensor numbers_;
    std::int64_t given_ = 0;
};

/// The residual stream between two layers: the sum r + dropout(y) that the next norm will do.
struct Stream {
    Tensor r;         ///< [B S, H]
    Tensor y;         ///< [B S, H]: output of the last branch; empty where there is none yet
    Dropout dropout;  ///< of y
};

/// Memory that the blocks of a chunk use in turn: the residual stream where it is not kept, and the
/// output of a branch.
struct StreamBuffers {
    Tensor r;  ///< [T, H]
    Tensor y;  ///< [T, H]
};

/// Its gradient, on the way back.
struct StreamGrad {
    Tensor dr;       ///< [B S, H]: gradient of the residual stream
    Tensor dropped;  ///< [B S, H]: memory for dy where a mask makes it differ from dr; else empty
    Measured dy;     ///< [B S, H]: gradient of the last branch's output; dr itself without dropout
    Maxima maxima;   ///< for gradients on the way; 0 at first
};

/// What a backward action computes: all (BW), only what earlier layers wait for (B), or only the
/// weight gradients of the linear layers (W).
enum class BackwardPart { whole, inputs, weights };

/// `kept` where it is there, else memory of that shape in the workspace.
inline Tensor kept_or_temporary(const Tensor& kept, const ModelContext& context, DType dtype,
                                const Shape& shape) {
    return kept.empty() ? context.workspace().allocate(dtype, shape) : kept;
}

}  // namespace gptrain
