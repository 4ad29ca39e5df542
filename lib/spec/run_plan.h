// Every number that follows from a run spec, derived and checked once. Rooms below see a `RunPlan`
// and never a YAML key's raw value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "spec/run_spec.h"

namespace gptrain {

/// The model's sizes, letters as in backend/backend.h, all resolved.
struct ModelShape {
    std::int64_t layers = 0;         ///< L
    std::int64_t hidden = 0;         ///< H
    std::int64_t heads = 0;          ///< N
    std::int64_t groups = 0;         ///< G, query groups
    std::int64_t head_dim = 0;       ///< D
    std::int64_t ffn = 0;            ///< F
    std::int64_t vocab = 0;          ///< V
    std::int64_t max_positions = 0;  ///< rows of wpe.weight
    PositionEmbedding position_embedding = PositionEmbedding::learned;
    double rope_theta = 10000.0;
    Normalization normalization = Normalization::layernorm;
    double norm_eps = 1.0e-5;
    Activation activation = Activation::gelu;
    bool bias = true;
    bool tie_embeddings = true;
    double dropout = 0.0;
    double init_std = 0.02;

    bool operator==(const ModelShape&) const = default;
};

/// Number of parameters, every one counted once.
std::int64_t parameter_count(const ModelShape& model);

/// FLOPs of one token's forward and backward: 6 x parameters + 6 L N D S for causal attention
/// (scores and values counted once for the visible half). Recomputation is not counted.
double flops_per_token(const ModelShape& model, std::int64_t seq_length);

/// Degrees of the mesh; tp varies fastest, then cp, dp, pp.
struct MeshShape {
    std::int64_t data = 1;
    std::int64_t pipeline = 1;
    std::int64_t context = 1;
    std::int64_t tensor = 1;
    std::int64_t size() const { return data * pipeline * context * tensor; }
};

/// The global batch size as a function of the samples consumed so far:
/// start + increment * floor(c * n / samples) with n = (global - start) / increment, global once
/// c >= samples.
struct BatchSchedule {
    std::int64_t global_batch_size = 1;
    RampupSpec rampup;

    std::int64_t size_at(std::int64_t consumed_samples) const;
    /// Samples consumed by `steps` steps from the start.
    std::int64_t samples_of(std::int64_t steps) const;
};

/// Learning rate of step k, counted from 1 (the formulas are in docs/design.md, Numerics).
struct LrSchedule {
    LrKind kind = LrKind::cosine;
    double lr = 0;
    double min_lr = 0;
    std::int64_t warmup_steps = 0;
    std::int64_t decay_steps = 1;
    std::int64_t wsd_decay_steps = 0;

    double at(std::int64_t step) const;
};

struct RunPlan {
    ModelShape model;
    ModelShape local;  ///< what one rank of tp has of it (local_shape)
    MeshShape mesh;
    /// Norms, dropout and the residual stream are cut along the sequence over tp.
    bool sequence_parallel = false;
    ScheduleKind schedule = ScheduleKind::one_f_one_b;
    std::int64_t virtual_stages = 1;   ///< chunks of a stage
    std::vector<std::int64_t> layers;  ///< of each chunk, in the model's order
    ContextMethod context_method = ContextMethod::ring;
    DType compute = DType::f32;  ///< bf16 where precision.compute is fp8
    /// The linear layers of all blocks but the first and the last multiply in 8 bits.
    bool float8 = false;
    DType grad_reduce = DType::f32;
    std::int64_t seq_length = 0;
    std::int64_t micro_batch_size = 0;
    BatchSchedule batch;
    LrSchedule lr;
    std::string shortened;  ///< what of the spec's lr_schedule is shorter in `lr`, for people
    std::int64_t steps = 0;
    /// Samples of one pass over the training order; open until the data say how many one pass over
    /// the corpus has (data/training_data.h).
    std::optional<std::int64_t> num_samples;
    /// Rows of logits that exist at a time: the largest multiple of 128 whose logits take at most
    /// 128 MiB in the compute dtype (on CUDA 1 GiB: every chunk adds to the whole gradient of the
    /// head, which takes 8 V H bytes of traffic), at least 128, and never more than a microbatch
    /// has.
    std::int64_t head_chunk = 0;

    /// S on a rank of cp.
    std::int64_t local_length() const { return seq_length / mesh.context; }
    /// S of the residual stream.
    std::int64_t stream_length() const {
        return local_length() / (sequence_parallel ? mesh.tensor : 1);
    }
    /// Microbatches of a step of `global_batch_size` sequences on one data rank.
    std::int64_t microbatches(std::int64_t global_batch_size) const;
};

/// The fewest ranks that the spec's mesh can have: one data rank where parallel.data is auto.
std::int64_t fewest_ranks(const ParallelSpec& parallel);

/// What the plan is made for.
struct PlanTarget {
    std::int64_t world_size = 1;
    bool cuda = false;     ///< the device, which decides the default of precision.compute
    bool dry_run = false;  ///< the world size was asked for, not started
};

/// Derives the plan. Every contradiction between keys (sizes that do not divide, a mesh that does
/// not fit the ranks) is an Error (usage) that begins with the place of the key at fault (where the
/// spec was read from a file) and names the keys, their values and what to change. A warm-up, or a
/// decay of wsd, that a run of so few steps has no room for is shortened where
/// lr_schedule.decay_steps is auto.
RunPlan make_plan(const RunSpec& spec, const PlanTarget& target);

/// The spec with every open value filled in that the plan knows: what is in force in this start.
RunSpec effective_spec(const RunSpec& spec, const RunPlan& plan);

/// The same as spec.yaml holds it, to start the run again, perhaps for more steps or on more ranks:
/// data.num_samples, lr_schedule.decay_steps and parallel.data stay open where the spec left them
/// open, and a shortened warm-up or decay is as the spec has it, because their numbers would be
/// wrong then.
RunSpec restart_spec(const RunSpec& spec, const RunPlan& plan);

/// The plan as lines for people (gptrain inspect RUN.yaml prints them under the effective spec).
/// Where the number of tokens to train on is known (not 0), it says how often the run reads them.
std::string describe(const RunPlan& plan, std::int64_t training_tokens = 0);

}  // namespace gptrain
