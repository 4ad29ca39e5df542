// The keys of a run spec, spelled once: their names, order and ranges, which are required, and
// which may be left open by a word. The reader, the writer and the list of known keys are visitors:
//   required(key, field, rule)       must be present
//   value(key, field, rule)          keeps its default if absent
//   open(key, field, word, rule)     `word` stands for the empty optional, or for the first
//                                    alternative of a variant, which has no keys
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>

#include "spec/run_spec.h"
#include "spec/spec_rules.h"

namespace gptrain {

// No run reaches these bounds. They keep every product of sizes far below 63 bits.
constexpr IntRange layer_count = {1, 100'000};
constexpr IntRange width = {1, 1 << 20};
constexpr IntRange ffn_width = {1, 1 << 22};
constexpr IntRange head_count = {1, 1 << 14};
constexpr IntRange expert_count = {1, 1536};  // of GPU kernels
constexpr IntRange token_count = {1, 1 << 24};
constexpr IntRange batch_count = {1, 1 << 22};
constexpr IntRange sample_count = {1, std::int64_t{1} << 40};
constexpr IntRange rank_count = {1, 1 << 15};
constexpr IntRange step_count = {1, std::int64_t{1} << 40};
constexpr IntRange step_interval = {0, std::int64_t{1} << 40};
// The seeds of numpy's legacy generator, which orders the samples.
constexpr IntRange seed_value = {0, 0xffff'ffff};
constexpr IntRange seconds_count = {0, 1'000'000'000};
constexpr RealRange not_negative = {.low = 0.0};
constexpr RealRange positive = {.low = 0.0, .ends = RealRange::Ends::high_only};
constexpr RealRange fraction = {.low = 0.0, .high = 1.0, .ends = RealRange::Ends::low_only};
constexpr RealRange zero_to_one = {.low = 0.0, .high = 1.0};
constexpr RealRange epsilon = {.low = 1.0e-30, .high = 1.0};

const ListOf<IntRange> layer_numbers = {0, 100'000, {0, layer_count.high - 1}};

/// As a section; RopeThetas may also be written as one number.
void visit_keys(auto& keys, RopeThetas& thetas) {
    keys.value("full", thetas.full, positive);
    keys.open("window", thetas.window, "none", positive);
}

void visit_keys(auto& keys, RopeScaling& scaling) {
    keys.required("kind", scaling.kind);
    keys.required("factor", scaling.factor, RealRange{.low = 1.0});
    keys.value("original_max_position_embeddings", scaling.original_max_position_embeddings,
               IntRange{0, token_count.high});
    keys.value("low_freq_factor", scaling.low_freq_factor, positive);
    keys.value("high_freq_factor", scaling.high_freq_factor, positive);
    keys.value("beta_fast", scaling.beta_fast, positive);
    keys.value("beta_slow", scaling.beta_slow, positive);
    keys.open("attention_factor", scaling.attention_factor, "auto", positive);
}

void visit_keys(auto& keys, SharedExpertSpec& shared) {
    keys.required("ffn_hidden_size", shared.ffn_hidden_size, ffn_width);
    keys.value("gate", shared.gate);
}

/// As a section; ExpertLayers may also be written as `all` or as a list.
void visit_keys(auto& keys, ExpertLayers& layers) {
    keys.value("first_dense", layers.first_dense, IntRange{0, layer_count.high});
    keys.value("every", layers.every, layer_count);
}

void visit_keys(auto& keys, RouterGroupsSpec& groups) {
    keys.required("count", groups.count, expert_count);
    keys.required("keep", groups.keep, expert_count);
}

void visit_keys(auto& keys, RouterSpec& router) {
    keys.value("score", router.score);
    keys.value("normalize", router.normalize);
    keys.value("scale", router.scale, positive);
    keys.value("logit_bias", router.logit_bias);
    keys.open("groups", router.groups, "none");
}

void visit_keys(auto& keys, BalanceSpec& balance) {
    keys.open("bias_rate", balance.bias_rate, "none", not_negative);
    keys.value("aux_weight", balance.aux_weight, not_negative);
    keys.value("sequence_aux_weight", balance.sequence_aux_weight, not_negative);
    keys.value("z_weight", balance.z_weight, not_negative);
}

void visit_keys(auto& keys, ExpertsSpec& experts) {
    keys.required("count", experts.count, expert_count);
    keys.required("per_token", experts.per_token, expert_count);
    keys.required("ffn_hidden_size", experts.ffn_hidden_size, ffn_width);
    keys.value("bias", experts.bias);
    keys.open("shared", experts.shared, "none");
    keys.value("layers", experts.layers);
    keys.value("load", experts.load, RealRange{.low = 1.0});
    keys.value("router", experts.router);
    keys.value("balance", experts.balance);
    keys.value("upcycling_noise", experts.upcycling_noise, not_negative);
}

void visit_keys(auto& keys, ModelSpec& model) {
    keys.required("num_layers", model.num_layers, layer_count);
    keys.required("hidden_size", model.hidden_size, width);
    keys.required("num_attention_heads", model.num_attention_heads, head_count);
    keys.open("num_query_groups", model.num_query_groups, "auto", head_count);
    keys.open("head_dim", model.head_dim, "auto", IntRange{1, 256});
    keys.open("ffn_hidden_size", model.ffn_hidden_size, "auto", ffn_width);
    keys.required("vocab_size", model.vocab_size, token_count);
    keys.open("max_position_embeddings", model.max_position_embeddings, "auto", token_count);
    keys.value("position_embedding", model.position_embedding);
    RopeThetas thetas = {model.rope_theta, model.window_rope_theta};
    keys.value("rope_theta", thetas);
    model.rope_theta = thetas.full;
    model.window_rope_theta = thetas.window;
    keys.open("rope_scaling", model.rope_scaling, "none");
    keys.value("rotary_fraction", model.rotary_fraction,
               RealRange{.low = 0.0, .high = 1.0, .ends = RealRange::Ends::high_only});
    keys.value("unrotated_layers", model.unrotated_layers, layer_numbers);
    keys.open("sliding_window", model.sliding_window, "none", token_count);
    keys.value("full_attention_layers", model.full_attention_layers, layer_numbers);
    keys.value("qk_norm", model.qk_norm);
    keys.open("attention_softcap", model.attention_softcap, "none", positive);
    keys.value("attention_sinks", model.attention_sinks);
    keys.open("logit_softcap", model.logit_softcap, "none", positive);
    keys.value("norm_placement", model.norm_placement);
    keys.value("parallel_residual", model.parallel_residual);
    keys.value("normalization", model.normalization);
    keys.value("norm_eps", model.norm_eps, epsilon);
    keys.value("activation", model.activation);
    keys.open("experts", model.experts, "none");
    keys.value("bias", model.bias);
    keys.open("qkv_bias", model.qkv_bias, "auto");
    keys.open("attention_bias", model.attention_bias, "auto");
    keys.open("norm_bias", model.norm_bias, "auto");
    keys.value("head_bias", model.head_bias);
    keys.value("embedding_scale", model.embedding_scale, positive);
    keys.value("embedding_norm", model.embedding_norm);
    keys.value("tie_embeddings", model.tie_embeddings);
    keys.value("dropout", model.dropout, fraction);
    keys.value("init_std", model.init_std, not_negative);
}

void visit_keys(auto& keys, MlmSpec& mlm) {
    ObjectiveKind kind = MlmSpec::kind;
    keys.required("kind", kind);
    keys.value("mask_rate", mlm.mask_rate, RealRange{.low = 0.01, .high = 0.99});
    keys.value("masking", mlm.masking);
    keys.open("mask_id", mlm.mask_id, "auto", IntRange{0, token_count.high - 1});
    keys.value("mask_share", mlm.mask_share, zero_to_one);
    keys.value("random_share", mlm.random_share, zero_to_one);
    keys.value("geometric_p", mlm.geometric_p, RealRange{.low = 0.01, .high = 1.0});
    keys.value("max_span", mlm.max_span, IntRange{1, 1000});
}

void visit_keys(auto& keys, AdapterSpec& adapter) {
    keys.required("kind", adapter.kind);
    keys.value("rank", adapter.rank, IntRange{1, 4096});
    keys.value("alpha", adapter.alpha, positive);
    keys.value("dropout", adapter.dropout, fraction);
    keys.value("targets", adapter.targets, ListOf<>{1, 7});
    keys.value("virtual_tokens", adapter.virtual_tokens, IntRange{1, 4096});
    keys.value("init", adapter.init);
    keys.open("encoder_hidden_size", adapter.encoder_hidden_size, "auto", width);
}

void visit_keys(auto& keys, DataSource& source) {
    keys.required("prefix", source.prefix);
    keys.value("weight", source.weight, positive);
}

void visit_keys(auto& keys, DataSpec& data) {
    keys.required("train", data.train, ListOf<>{0, 10'000});
    keys.value("validation", data.validation, ListOf<>{0, 10'000});
    keys.value("split", data.split, Split{});
    keys.open("tokenizer", data.tokenizer, "none");
    keys.open("num_samples", data.num_samples, "auto", sample_count);
    keys.value("on_change", data.on_change);
    keys.open("eod_id", data.eod_id, "auto", IntRange{0, token_count.high - 1});
    keys.value("eod_mask_loss", data.eod_mask_loss);
    keys.open("reset_at_eod", data.reset_at_eod, "auto");
}

void visit_keys(auto& keys, RampupSpec& rampup) {
    keys.value("start", rampup.start, batch_count);
    keys.value("increment", rampup.increment, batch_count);
    keys.value("samples", rampup.samples, IntRange{0, sample_count.high});
}

void visit_keys(auto& keys, TrainingSpec& training) {
    keys.value("seq_length", training.seq_length, token_count);
    keys.value("micro_batch_size", training.micro_batch_size, batch_count);
    keys.open("global_batch_size", training.global_batch_size, "auto", batch_count);
    keys.value("rampup", training.rampup);
    keys.required("steps", training.steps, step_count);
    keys.value("eval_interval", training.eval_interval, step_interval);
    keys.value("eval_steps", training.eval_steps, IntRange{0, 1 << 24});
    keys.value("frozen", training.frozen, ListOf<Label>{0, 100});
}

void visit_keys(auto& keys, EvalTasksSpec& eval_tasks) {
    keys.required("tasks", eval_tasks.tasks, ListOf<>{1, 100});
    keys.required("interval", eval_tasks.interval, step_count);
    keys.open("data", eval_tasks.data, "none");
    keys.open("limit", eval_tasks.limit, "none", sample_count);
    keys.open("few_shot", eval_tasks.few_shot, "auto", IntRange{0, 1000});
}

void visit_keys(auto& keys, ParallelSpec& parallel) {
    keys.value("tensor", parallel.tensor, rank_count);
    keys.value("sequence_parallel", parallel.sequence_parallel);
    keys.value("overlap_tensor", parallel.overlap_tensor);
    keys.value("peer", parallel.peer);
    keys.value("pipeline", parallel.pipeline, rank_count);
    keys.value("virtual_stages", parallel.virtual_stages, layer_count);
    keys.open("layers", parallel.layers, "auto", ListOf<IntRange>{1, 100'000, layer_count});
    keys.value("context", parallel.context, rank_count);
    keys.value("context_method", parallel.context_method);
    keys.open("data", parallel.data, "auto", rank_count);
    keys.value("expert", parallel.expert, rank_count);
    keys.value("schedule", parallel.schedule);
    keys.value("shard", parallel.shard);
    keys.open("shard_ranks", parallel.shard_ranks, "all", rank_count);
    keys.value("reshard", parallel.reshard);
}

void visit_keys(auto& keys, PrecisionSpec& precision) {
    keys.open("compute", precision.compute, "auto");
    keys.open("fp8_recipe", precision.fp8_recipe, "auto");
    keys.open("fp8_weight_gradients", precision.fp8_weight_gradients, "auto",
              OneOf<Precision>{{Precision::bf16, Precision::fp8}});
    keys.value("grad_reduce", precision.grad_reduce,
               OneOf<Precision>{{Precision::fp32, Precision::bf16}});
    keys.value("frozen", precision.frozen);
    keys.value("nf4_double", precision.nf4_double);
    keys.value("main_weights", precision.main_weights,
               OneOf<Precision>{{Precision::fp32, Precision::bf16}});
}

void visit_keys(auto& keys, MuonSpec& muon) {
    keys.value("momentum", muon.momentum, fraction);
    keys.value("nesterov", muon.nesterov);
    keys.value("scale", muon.scale);
    keys.value("lr_scale", muon.lr_scale, not_negative);
}

void visit_keys(auto& keys, OptimizerSpec& optimizer) {
    keys.value("name", optimizer.name, OneOf<std::string>{{"adamw", "muon"}});
    keys.value("lr", optimizer.lr, not_negative);
    keys.value("betas", optimizer.betas, ListOf<RealRange>{2, 2, fraction});
    keys.value("eps", optimizer.eps, epsilon);
    keys.value("weight_decay", optimizer.weight_decay, not_negative);
    keys.value("clip_grad", optimizer.clip_grad, not_negative);
    keys.value("state", optimizer.state);
    keys.value("muon", optimizer.muon);
}

void visit_keys(auto& keys, OffloadSpec& offload) {
    keys.value("optimizer", offload.optimizer);
    keys.value("main_weights", offload.main_weights);
    keys.value("activations", offload.activations);
}

void visit_keys(auto& keys, LrScheduleSpec& schedule) {
    keys.value("kind", schedule.kind);
    keys.value("warmup_steps", schedule.warmup_steps, step_interval);
    keys.open("decay_steps", schedule.decay_steps, "auto", step_count);
    keys.value("min_lr", schedule.min_lr, not_negative);
    keys.value("wsd_decay_steps", schedule.wsd_decay_steps, step_interval);
}

void visit_keys(auto& keys, CheckpointSpec& checkpoint) {
    keys.value("interval", checkpoint.interval, step_interval);
    keys.value("keep_last", checkpoint.keep_last, IntRange{2, 1'000'000});
    keys.value("keep_every", checkpoint.keep_every, step_interval);
    keys.value("async", checkpoint.async);
    keys.open("local", checkpoint.local, "none");
    keys.value("local_interval", checkpoint.local_interval, step_count);
    keys.open("memory", checkpoint.memory, "none");
    keys.value("memory_interval", checkpoint.memory_interval, step_count);
}

void visit_keys(auto& keys, LossSpike& spike) {
    keys.required("factor", spike.factor, RealRange{.low = 1.0});
    keys.required("window", spike.window, IntRange{1, 1'000'000});
    keys.required("action", spike.action);
}

void visit_keys(auto& keys, FaultsSpec& faults) {
    keys.value("hang_seconds", faults.hang_seconds, seconds_count);
    keys.value("silence_factor", faults.silence_factor, not_negative);
    keys.value("max_skipped_steps", faults.max_skipped_steps, step_interval);
    keys.value("replica_check_interval", faults.replica_check_interval, step_interval);
    keys.value("replay_interval", faults.replay_interval, step_interval);
    keys.open("loss_spike", faults.loss_spike, "none");
    keys.open("time_limit", faults.time_limit, "none", IntRange{1, seconds_count.high});
}

void visit_keys(auto& keys, LoggingSpec& logging) {
    keys.value("interval", logging.interval, step_count);
    keys.value("tensorboard", logging.tensorboard);
    keys.open("prometheus", logging.prometheus, "none");
}

void visit_keys(auto& keys, InjectedFault& fault) {
    constexpr std::int64_t most_calls = std::int64_t{1} << 40;
    keys.required("kind", fault.kind);
    keys.value("rank", fault.rank, IntRange{0, rank_count.high - 1});
    keys.required("step", fault.step, step_count);
    keys.value("call", fault.call, IntRange{0, most_calls});
    keys.value("calls", fault.calls, IntRange{1, most_calls});
    keys.value("seconds", fault.seconds, RealRange{.low = 0.0, .high = 1.0e6});
}

void visit_keys(auto& keys, FaultInjectionSpec& injection) {
    keys.value("seed", injection.seed, seed_value);
    keys.required("faults", injection.faults, ListOf<>{1, 10'000});
}

void visit_keys(auto& keys, RunSpec& spec) {
    keys.required("name", spec.name, Label{});
    keys.value("seed", spec.seed, seed_value);
    keys.open("init_from", spec.init_from, "none");
    keys.value("device", spec.device);
    keys.required("output_dir", spec.output_dir);
    keys.value("model", spec.model);
    keys.open("objective", spec.objective, "causal");
    keys.open("adapter", spec.adapter, "none");
    keys.value("data", spec.data);
    keys.value("training", spec.training);
    keys.open("eval_tasks", spec.eval_tasks, "none");
    keys.value("parallel", spec.parallel);
    keys.value("precision", spec.precision);
    keys.value("recompute", spec.recompute);
    keys.value("deterministic", spec.deterministic);
    keys.value("optimizer", spec.optimizer);
    keys.value("offload", spec.offload);
    keys.value("lr_schedule", spec.lr_schedule);
    keys.value("checkpoint", spec.checkpoint);
    keys.value("faults", spec.faults);
    keys.value("logging", spec.logging);
    keys.open("fault_injection", spec.fault_injection, "none");
}

/// Calls use(value) with the value of an open key, unless a word stands for it. True if there is
/// one.
template <class T>
bool with_value(std::optional<T>& field, const auto& use) {
    if (field) use(*field);
    return field.has_value();
}
template <class None, class... Sections>
bool with_value(std::variant<None, Sections...>& field, const auto& use) {
    const auto use_section = [&](auto& section) {
        if constexpr (!std::is_same_v<std::remove_reference_t<decltype(section)>, None>)
            use(section);
    };
    std::visit(use_section, field);
    return field.index() > 0;
}

/// The list of known keys.
struct KeyNames {
    std::vector<std::string_view> names;
    void required(std::string_view key, const auto&...) { names.push_back(key); }
    void value(std::string_view key, const auto&...) { names.push_back(key); }
    void open(std::string_view key, const auto&...) { names.push_back(key); }
};

/// A value that itself has keys.
template <class T>
concept Section = requires(KeyNames& keys, T& section) {
    visit_keys(keys, section);
};

}  // namespace gptrain
