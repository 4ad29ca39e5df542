#include "spec/unused_keys.h"

#include <string_view>

#include "base/text.h"

namespace gptrain {
namespace {

class UnusedKeys {
public:
    /// Call it for a key that works only if `why` does not hold. `set`: its value is not the
    /// default.
    void add(bool set, std::string_view key, std::string_view why) {
        if (set) warnings.push_back(text(key, " does nothing ", why));
    }

    std::vector<std::string> warnings;
};

void add_learning_rate(const LrScheduleSpec& schedule, std::int64_t steps, UnusedKeys& unused) {
    const std::string why = text("with lr_schedule.kind ", name_of(schedule.kind));
    const bool constant = schedule.kind == LrKind::constant;
    const bool decays = !constant && schedule.kind != LrKind::inverse_sqrt;
    unused.add(constant && schedule.min_lr != 0, "lr_schedule.min_lr", why);
    // Given, it keeps a warm-up that is longer than the run from being shortened.
    unused.add(!decays && schedule.decay_steps && schedule.warmup_steps <= steps,
               "lr_schedule.decay_steps", why);
}

void add_scaling(const RopeScaling& scaling, UnusedKeys& unused) {
    const RopeScaling plain;
    const std::string section = "model.rope_scaling.";
    const std::string why = text("with kind ", name_of(scaling.kind));
    const bool llama3 = scaling.kind == RopeScalingKind::llama3;
    const bool yarn = scaling.kind == RopeScalingKind::yarn;
    unused.add(!llama3 && scaling.low_freq_factor != plain.low_freq_factor,
               section + "low_freq_factor", why);
    unused.add(!llama3 && scaling.high_freq_factor != plain.high_freq_factor,
               section + "high_freq_factor", why);
    unused.add(!yarn && scaling.beta_fast != plain.beta_fast, section + "beta_fast", why);
    unused.add(!yarn && scaling.beta_slow != plain.beta_slow, section + "beta_slow", why);
    unused.add(!yarn && scaling.attention_factor.has_value(), section + "attention_factor", why);
    unused.add(!llama3 && !yarn && scaling.original_max_position_embeddings != 0,
               section + "original_max_position_embeddings", why);
}

void add_positions(const ModelSpec& model, UnusedKeys& unused) {
    const ModelSpec plain;
    const bool rope = model.position_embedding == PositionEmbedding::rope;
    const std::string_view no_rope = "without model.position_embedding rope";
    unused.add(!rope && model.rotary_fraction != plain.rotary_fraction, "model.rotary_fraction",
               no_rope);
    unused.add(!rope && !model.unrotated_layers.empty(), "model.unrotated_layers", no_rope);
    const std::string_view no_window = "without model.sliding_window";
    unused.add(!model.sliding_window && !model.full_attention_layers.empty(),
               "model.full_attention_layers", no_window);
    unused.add(!model.sliding_window && model.window_rope_theta.has_value(),
               "model.rope_theta.window", no_window);
    unused.add(!rope && model.rope_theta != plain.rope_theta, "model.rope_theta", no_rope);
    if (model.rope_scaling) add_scaling(*model.rope_scaling, unused);
}

}  // namespace

std::vector<std::string> unused_keys(const RunSpec& spec) {
    UnusedKeys unused;
    add_positions(spec.model, unused);
    unused.add(
        spec.model.normalization == Normalization::rmsnorm && spec.model.norm_bias.has_value(),
        "model.norm_bias", "with model.normalization rmsnorm");
    add_learning_rate(spec.lr_schedule, spec.training.steps, unused);
    const RampupSpec& rampup = spec.training.rampup;
    const RampupSpec plain;
    const std::string_view no_ramp = "while training.rampup.samples is 0";
    unused.add(rampup.samples == 0 && rampup.start != plain.start, "training.rampup.start",
               no_ramp);
    unused.add(rampup.samples == 0 && rampup.increment != plain.increment,
               "training.rampup.increment", no_ramp);
    unused.add(
        !spec.checkpoint.local && spec.checkpoint.local_interval != CheckpointSpec{}.local_interval,
        "checkpoint.local_interval", "without checkpoint.local");
    unused.add(!spec.checkpoint.memory &&
                   spec.checkpoint.memory_interval != CheckpointSpec{}.memory_interval,
               "checkpoint.memory_interval", "without checkpoint.memory");
    const ParallelSpec& parallel = spec.parallel;
    const std::string with_shard = text("with parallel.shard ", name_of(parallel.shard));
    unused.add(parallel.shard == Sharded::none && parallel.shard_ranks, "parallel.shard_ranks",
               with_shard);
    const bool copies = parallel.shard != Sharded::weights || parallel.shard_ranks;
    unused.add(!copies && spec.faults.replica_check_interval > 0, "faults.replica_check_interval",
               "with parallel.shard weights, which leaves no copies without parallel.shard_ranks");
    unused.add(parallel.shard != Sharded::weights && !parallel.reshard, "parallel.reshard",
               with_shard);
    unused.add(spec.device == DeviceChoice::cpu && spec.parallel.peer != ParallelSpec{}.peer,
               "parallel.peer", "with device cpu");
    unused.add(spec.precision.compute != Precision::fp8 && spec.precision.fp8_recipe.has_value(),
               "precision.fp8_recipe", "without precision.compute fp8");
    unused.add(
        spec.precision.compute != Precision::fp8 && spec.precision.fp8_weight_gradients.has_value(),
        "precision.fp8_weight_gradients", "without precision.compute fp8");
    unused.add(spec.precision.compute == Precision::fp32 && spec.offload.main_weights,
               "offload.main_weights", "with precision.compute fp32: the weights are in fp32");
    return std::move(unused.warnings);
}

}  // namespace gptrain
