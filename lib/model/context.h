// The arguments of every part of the model: resources, sizes, and the residual stream,
// r + dropout(y) [T, H] with T = B S.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "backend/memory.h"
#include "comm/mesh.h"
#include "model/batch.h"
#include "spec/run_plan.h"

namespace gptrain {

class GradBuckets;

/// Resources and settings of a model, passed down explicitly. Everything in it outlives the model.
struct ModelContext {
    Backend& backend;
    const Mesh& mesh;
    Memory& memory;
    const ModelShape& shape;  ///< local shape: N, G, F of this rank, V padded (local_shape)
    DType compute;
    bool fp8_weight_gradients = false;  ///< (RunPlan)
    std::uint64_t seed;
    std::int64_t head_rows;          ///< rows of logits computed at a time
    std::int64_t sequences;          ///< B
    bool sequence_parallel = false;  ///< the residual stream is split along S over tp
    std::int64_t tensor_pieces = 1;  ///< of the GEMMs between split and whole rows (RunPlan)
    bool pieces_by_rank = false;     ///< (RunPlan)
    RowPositions stream_rows = {};   ///< global positions of the stream's local rows
    RowPositions batch_rows = {};    ///< those of all rows of the batch on this rank of cp
    ContextMethod context_method = ContextMethod::ring;
    std::int64_t exchange_pieces = 1;  ///< of all_to_all (ContextRanks)
    /// fp64 [L, E]: the weight of the step's tokens that chose each expert; empty without experts
    /// and in inference.
    Tensor expert_counts = {};

    /// Id of this rank's first vocabulary row.
    std::int64_t vocab_begin() const { return mesh.tp().rank() * shape.vocab; }
    /// Rows of the residual stream for `rows` rows of a batch.
    std::int64_t stream_length(std::int64_t rows) const {
        return sequence_parallel ? div_exact(rows, mesh.tp().size()) : rows;
    }
    /// [T, H] of the residual stream for `tokens` tokens of a batch.
    Shape stream_shape(std::int64_t tokens) const { return {stream_length(tokens), shape.hidden}; }

    Arena& workspace() const { return memory[MemoryUse::workspace]; }
    /// Workspace memory for the current action, in the compute dtype.
    Tensor temporary(const Shape& wanted) const { return workspace().allocate(compute, wanted); }
    /// `kept` unless it is empty, else such memory.
    Tensor kept_or_temporary(const Tensor& kept, const Shape& wanted) const {
        return kept.empty() ? temporary(wanted) : kept;
    }
    Tensor temporary_f32(const Shape& wanted) const {
        return workspace().allocate(DType::f32, wanted);
    }
    /// Such memory for a matrix in FP8 with scales for blocks of 1 x 128.
    Fp8Matrix temporary_rows8(const Shape& wanted) const {
        return {.rowwise = workspace().allocate(DType::f8e4m3, wanted),
                .columnwise = {},
                .scale = temporary_f32(fp8_row_scales(wanted[0], wanted[1]))};
    }
    /// x, which is fp32, rounded to the compute dtype in such memory unless it is fp32.
    Tensor in_compute_dtype(const Tensor& x) const {
        if (compute == DType::f32) return x;
        const Tensor rounded = temporary(x.shape());
        backend.run(Cast{.to = rounded, .from = x});
        return rounded;
    }
};

/// Rows of a batch [1, T] that continue one of several texts, whose keys and values follow each
/// other in the caches.
struct TextRows {
    std::int64_t begin = 0;  ///< first row
    std::int64_t count = 0;
    std::int64_t cache_begin = 0;  ///< where the text begins in the caches
    std::int64_t before = 0;       ///< tokens of the text in the caches
};

/// One pass of a microbatch through the model.
struct Pass {
    const Batch& batch;
    StepRef step;
    bool training = true;  ///< enables dropout
    bool again = false;    ///< it repeats a forward that has been counted and measured
    /// Slices of the tokens of a layer whose rows go to the ranks of experts one slice after the
    /// other; 0: as many as messages need that hold any choice.
    std::int64_t expert_slices = 0;
    /// Its weight gradients (of a forward: the head's) are the first of the step in their chunk.
    bool first_gradients = false;
    /// Where gradients pass through windows (GradBuckets::by_units), else null.
    GradBuckets* unit_grads = nullptr;
    /// The texts of a batch [1, T] of several. If empty, each row of the batch is a text.
    std::span<const TextRows> texts = {};

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
    /// Local sequence length S of the residual stream.
    std::int64_t stream_length(const ModelContext& context) const {
        return context.stream_length(batch.seq_length());
    }
};

/// An operand of a linear layer: x or dy.
struct LinearOperand {
    Tensor values;
    /// fp32 [1]: largest absolute value, for FP8. If empty, the layer that needs it computes it.
    Tensor amax = {};
    /// x by columns, if forward keeps this form for the gradient of the weight
    /// (Linear::keeps_columns), otherwise empty.
    Fp8Matrix columns8 = {};
    /// Its rows with scales for blocks, where the op that writes the values writes these, too, or
    /// in place of them (Linear::takes_x8, takes_dy8); otherwise empty.
    Fp8Matrix rows8 = {};
    bool is_kept() const { return !values.empty() || !columns8.empty(); }
};

/// Hands out amaxes one by one from a contiguous tensor, which one fill clears.
class AmaxPool {
public:
    AmaxPool() = default;  ///< hands out empty tensors
    explicit AmaxPool(const Tensor& numbers) : numbers_(numbers) {}
    Tensor next() { return numbers_.empty() ? Tensor() : numbers_.slice(0, given_++, 1); }

private:
    Tensor numbers_;
    std::int64_t given_ = 0;
};

/// The residual stream between two layers: the sum r + dropout(y), which the next norm computes.
struct Stream {
    Tensor r;         ///< [B S, H]
    Tensor y;         ///< [B S, H]: output of the last branch; empty if there is none yet
    Dropout dropout;  ///< applied to y
};

/// Buffers that the blocks of a chunk share: the residual stream if it is not kept, and a branch's
/// output.
struct StreamBuffers {
    Tensor r;  ///< [T, H]
    Tensor y;  ///< [T, H]
};

/// The gradient of the residual stream, in backward.
struct StreamGrad {
    Tensor dr;           ///< [B S, H]: gradient of the residual stream
    Tensor dropped;      ///< [B S, H]: memory for dy if dropout makes it differ from dr, else empty
    LinearOperand dy;    ///< [B S, H]: gradient of the last branch's output; dr without dropout
    AmaxPool amax_pool;  ///< for the gradients that backward produces, 0 at first
    Fp8Matrix dy8 = {};  ///< memory for dy.rows8, if a block of the chunk reads it
    bool takes_dy8 = false;  ///< the branch that comes next in backward does
};

/// The part of backward that an action computes: everything (BW), only what earlier layers wait for
/// (B), or only the weight gradients of linear layers (W).
enum class BackwardPart { whole, inputs, weights };

}  // namespace gptrain
