// Everything that computation needs from a run spec, derived and checked once. Code that computes
// takes the `RunPlan` and never sees the spec.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "spec/parameter_rules.h"
#include "spec/run_spec.h"

namespace gptrain {

/// LoRA (Hu et al. 2021, arXiv 2106.09685): a linear layer [O, I] among the targets computes
/// y = x W^T + b + scale dropout(x) A^T B^T with A [rank, I] and B [O, rank].
struct Lora {
    std::int64_t rank = 0;
    double scale = 1;
    double dropout = 0;
    std::vector<LinearName> targets;

    bool adapts(LinearName layer) const;
    bool operator==(const Lora&) const = default;
};

/// Virtual tokens before every text, whose embeddings are trained: as they are (prompt tuning,
/// Lester et al. 2021, arXiv 2104.08691), or computed by an encoder (p-tuning, Liu et al. 2021,
/// arXiv 2103.10385).
struct SoftPrompt {
    std::int64_t tokens = 0;
    PromptInit init = PromptInit::random;
    std::int64_t encoder_hidden = 0;  ///< 0: no encoder

    bool operator==(const SoftPrompt&) const = default;
};

/// The model as computing sees it, whole or one rank's part of it: sizes that are all known, called
/// as in backend/ops.h. ModelSpec is another type because it holds the YAML's keys by their names,
/// some of them left open, while every number here is resolved.
struct ModelShape : ModelVariant {
    std::int64_t layers = 0;         ///< L
    std::int64_t hidden = 0;         ///< H
    std::int64_t heads = 0;          ///< N
    std::int64_t groups = 0;         ///< G, query groups
    std::int64_t head_dim = 0;       ///< D
    std::int64_t ffn = 0;            ///< F
    std::int64_t vocab = 0;          ///< V
    std::int64_t max_positions = 0;  ///< rows of wpe.weight
    bool qkv_bias = true;            ///< biases of q, k and v
    bool attention_bias = true;      ///< of attn.proj
    bool norm_bias = true;           ///< of every layernorm
    std::optional<Lora> lora = {};
    std::optional<SoftPrompt> prompt = {};
    bool bidirectional = false;  ///< every token sees the whole sequence, not only earlier tokens

    /// Virtual tokens before every text.
    std::int64_t virtual_tokens() const { return prompt ? prompt->tokens : 0; }
    /// True if tokens of the layer see at most sliding_window keys. full_attention_layers are in
    /// ascending order.
    bool has_window(std::int64_t layer) const;
    /// Dims of a head that rope rotates, an even number: the first ones.
    std::int64_t rotary_dims() const;
    /// True if the layer rotates queries and keys. unrotated_layers are in ascending order.
    bool rotates(std::int64_t layer) const;
    /// The base and the scaling of the layer's rotations.
    double rope_theta_of(std::int64_t layer) const;
    std::optional<RopeScaling> rope_scaling_of(std::int64_t layer) const;

    bool operator==(const ModelShape&) const = default;
};

/// Layers with the same tensors but for their names.
struct LayerKind {
    bool experts = false;
    std::int64_t first = 0;  ///< the first such layer
    double share = 1;        ///< of the model's layers
};

/// The kinds of layers that a model has: one or two.
std::vector<LayerKind> layer_kinds(const ModelShape& model);

/// The model without its adapter.
ModelShape without_adapter(ModelShape model);

/// Sizes of the mesh's axes and of their parts. tp varies fastest, then cp, dp, pp.
struct MeshShape {
    std::int64_t data = 1;
    std::int64_t pipeline = 1;
    std::int64_t context = 1;
    std::int64_t tensor = 1;
    std::int64_t kv = 1;      ///< neighbours on tp that share k/v heads
    std::int64_t expert = 1;  ///< ranks that divide the experts among them (Axis::experts)
    /// Neighbours on dp x cp that divide the optimizer's state, gradients or weights; 1: all of
    /// them, or nobody (RunPlan::shard).
    std::int64_t shard = 1;
    std::int64_t size() const { return data * pipeline * context * tensor; }
    /// True if data ranks divide the experts among them: they exchange rows in every microbatch, so
    /// all have as many as the one with the most.
    bool experts_span_data() const { return expert > tensor * context; }
};

/// The global batch size as a function of c, the samples consumed so far: start + increment *
/// floor(c * n / samples) with n = (global - start) / increment; global once c >= samples.
struct BatchSchedule {
    std::int64_t global_batch_size = 1;
    RampupSpec rampup;

    std::int64_t size_at(std::int64_t consumed_samples) const;
    /// Samples consumed after `steps` more steps.
    std::int64_t samples_of(std::int64_t steps, std::int64_t consumed = 0) const;
    /// The fewest steps from the start that consume at least this many samples.
    std::int64_t steps_of(std::int64_t samples) const;
};

/// The learning rate of step k, counted from 1 (formulas: docs/numerics.md).
struct LrSchedule {
    LrKind kind = LrKind::cosine;
    double lr = 0;
    double min_lr = 0;
    std::int64_t warmup_steps = 0;
    std::int64_t decay_steps = 1;
    std::int64_t wsd_decay_steps = 0;

    double at(std::int64_t step) const;
};

/// How the optimizer updates parameters.
struct OptimizerPlan {
    std::array<double, 2> betas{};
    double eps = 0;
    double weight_decay = 0;
    double clip_grad = 0;                     ///< 0: no clipping
    MuonSpec muon;                            ///< of the parameters that Muon updates
    MomentFormat state = MomentFormat::fp32;  ///< of AdamW's moments
    DType main_weights = DType::f32;          ///< f32, or bf16 with stochastic rounding
    std::uint64_t seed = 0;                   ///< of stochastic rounding
};

/// The effects of the end-of-document token on samples.
struct EndOfDocument {
    std::optional<std::int64_t> id;  ///< of the token, if known
    bool mask_loss = false;          ///< the token has no loss
    bool reset = false;              ///< positions and attention restart after it
};

/// Elements of a row of an int8 matrix that share a scale.
constexpr std::int64_t int8_block = 64;

struct RunPlan {
    std::uint64_t seed = 0;
    ModelShape model;
    ModelShape local;  ///< one tp rank's part of it (local_shape)
    MeshShape mesh;
    /// Norms, dropout and the residual stream are split along the sequence over tp.
    bool sequence_parallel = false;
    /// The number of pieces into which the rows of linear layers' GEMMs are cut where they wait for
    /// slices of the sequence, or others wait for theirs. Messages of one piece overlap with the
    /// GEMMs of another. 1: they are not cut.
    std::int64_t tensor_pieces = 1;
    /// Each piece is the slices of some ranks of tp, and a rank begins or ends with its own, so
    /// that it waits for no message before its first GEMM nor after its last one.
    bool pieces_by_rank = false;
    /// Messages inside a node are copies between GPUs, where they can share memory.
    bool peer_messages = false;
    ScheduleKind schedule = ScheduleKind::one_f_one_b;
    std::int64_t virtual_stages = 1;         ///< chunks per stage
    std::vector<std::int64_t> chunk_layers;  ///< layers of each chunk, in the model's order
    ContextMethod context_method = ContextMethod::ring;
    DType compute = DType::f32;  ///< bf16 if precision.compute is fp8
    /// The linear layers of all blocks except the first and the last multiply in FP8.
    bool fp8 = false;
    /// Activations and gradients have a scale for each 128 values of a row, weights for each block
    /// of 128 x 128; else each tensor has one.
    bool fp8_blocks = false;
    bool fp8_weight_gradients = false;  ///< gradients of these weights are FP8 products, too
    /// Matrices of linear layers that are not trained are kept in int8; in inference a copy of the
    /// head's as well.
    bool int8_frozen = false;
    /// The same in nf4, but no head; `nf4_double`: the scales are quantised too.
    bool nf4_frozen = false;
    bool nf4_double = false;
    bool quantised() const { return int8_frozen || nf4_frozen; }
    std::string int8_warning;  ///< for display: on this mesh the int8 form is not that of one rank
    DType grad_reduce = DType::f32;
    /// A message starts only after all that were issued before it have started (NCCL, CUDA). So
    /// none is issued while it would hold up others.
    bool messages_in_order = false;
    bool deterministic = true;  ///< sums over ranks have one order (NCCL: they go around rings)
    Recompute recompute = Recompute::selective;
    ParameterRules parameters;
    /// The first microbatch of a step overwrites the gradients of linear layers, which the step
    /// does not clear. Not in a run with the injected fault `nan`: the NaN would be overwritten.
    bool overwrites_gradients = true;
    OptimizerPlan optimizer;
    OffloadSpec offload;
    /// Each of the ranks that share parameters holds a part of this, and updates that part. More
    /// than the optimizer's state only if several ranks share parameters.
    Sharded shard = Sharded::optimizer;
    /// With sharded weights: blocks share two windows, and each is gathered whenever it is used;
    /// else each block has a window and is gathered once a step.
    bool reshard = true;
    std::int64_t seq_length = 0;
    std::int64_t micro_batch_size = 0;
    BatchSchedule batch;
    LrSchedule lr;
    std::string shortening_note;  ///< for display: what `lr` shortens in the spec's lr_schedule
    std::int64_t steps = 0;
    EndOfDocument end_of_document;
    /// Sources that an evaluation may blend; 0 if there are fewer than two.
    std::int64_t validation_sources = 0;
    bool scores_tasks = false;  ///< the run has tasks that measure its model (eval_tasks)
    Objective objective;
    bool async_checkpoint = true;  ///< written in the background, from a copy in host memory
    bool local_copies = false;     ///< each rank's state is copied to its node's disk, the same way
    bool memory_copies = false;    ///< and into its node's memory
    /// Samples of one pass over the training order. Empty until the data determine how many samples
    /// one pass over the corpus has (data/training_data.h).
    std::optional<std::int64_t> num_samples;
    /// Rows of logits that exist at a time: a multiple of 128 whose logits take at most 128 MiB in
    /// the compute dtype, at least 128, and at most the rows of a microbatch. These are divided
    /// into as few chunks as fit, which are as equal as the multiple allows. On CUDA the limit is
    /// 1 GiB, because every chunk adds to the whole gradient of the head: 8 V H bytes of traffic.
    std::int64_t head_rows = 0;

    /// On a data rank, up to this many final microbatches defer the head's weight gradient to the
    /// end of the step, when the last stage of a pipeline would wait.
    std::int64_t deferred_heads = 0;

    /// True if gradients are reduced after every microbatch, and a rank keeps its part of the sums.
    bool shards_gradients() const { return shard >= Sharded::gradients; }
    bool shards_weights() const { return shard == Sharded::weights; }
    /// True if data ranks exchange messages in every microbatch, so that all have as many as the
    /// one with the most: rows of experts, gradients or weights.
    bool equal_counts() const { return mesh.experts_span_data() || shards_gradients(); }
    /// True if a chunk's gradients are reduced as one bucket. Several buckets would queue behind
    /// each other and, where messages start in the order of issue, hold up other axes' messages in
    /// the pipeline's cooldown.
    bool reduces_whole_chunks() const {
        return messages_in_order && mesh.pipeline > 1 && grad_reduce == DType::f32 &&
               !shards_gradients();
    }
    /// Pieces of the heads that context_method all_to_all exchanges one by one. MPI moves data
    /// while it is waited for, which would hide nothing.
    std::int64_t exchange_pieces() const { return messages_in_order ? 2 : 1; }
    /// True if some layers have a window that is shorter than the sequence.
    bool limits_attention() const {
        return model.sliding_window && *model.sliding_window < seq_length;
    }
    /// S on one cp rank.
    std::int64_t local_length() const { return seq_length / mesh.context; }
    /// S of the residual stream.
    std::int64_t stream_length() const {
        return local_length() / (sequence_parallel ? mesh.tensor : 1);
    }
    /// Number of stripes per sequence. Each tp rank holds a slice of every stripe, so that a piece
    /// contains the same rows on all ranks. With several sequences there is one stripe, because a
    /// piece is then a subset of the sequences.
    std::int64_t stream_stripes() const {
        return micro_batch_size == 1 && !pieces_by_rank ? tensor_pieces : 1;
    }
    /// Microbatches of a step of `global_batch_size` sequences on a data rank, by default on the
    /// first, which has the most; all have as many with equal_counts.
    std::int64_t microbatches(std::int64_t global_batch_size, std::int64_t data_rank = 0) const;
};

/// How many of `microbatches` data rank r of R has. They are dealt in turn, microbatch k to rank
/// k mod R, so the first ranks may have one more than the others.
std::int64_t dealt_microbatches(std::int64_t microbatches, std::int64_t data_ranks,
                                std::int64_t data_rank);

/// The plan as text (gptrain inspect RUN.yaml prints it below the effective spec). If
/// `training_tokens` is known (not 0), it includes how often the run reads them.
std::string describe(const RunPlan& plan, std::int64_t training_tokens = 0);

}  // namespace gptrain
