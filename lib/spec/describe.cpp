#include <string>

#include "base/checked.h"
#include "base/text.h"
#include "spec/model_cost.h"
#include "spec/run_plan.h"

namespace gptrain {
namespace {

/// One line of the table. Without a title it continues the previous line.
std::string row(std::string_view title, const std::string& content) {
    constexpr std::size_t width = 15;
    return text(title, std::string(width - title.size(), ' '), content, "\n");
}

std::string rope_text(const ModelShape& model) {
    std::string scaling;
    if (model.rope_scaling) {
        scaling = text(", ", name_of(model.rope_scaling->kind), " x ", model.rope_scaling->factor);
    }
    const std::string window =
        model.window_rope_theta ? text(", in a window ", *model.window_rope_theta) : "";
    const std::string part =
        model.rotary_fraction < 1 ? text(" of ", model.rotary_dims(), " dims") : "";
    const std::int64_t unrotated = std::ssize(model.unrotated_layers);
    return text("rope", part, " (theta ", model.rope_theta, window, scaling, ")",
                unrotated > 0 ? text(" except in ", counted(unrotated, "layer")) : "");
}

std::string positions_text(const ModelShape& model) {
    switch (model.position_embedding) {
        case PositionEmbedding::learned:
            return text("learned positions (", model.max_positions, ")");
        case PositionEmbedding::rope: return rope_text(model);
        case PositionEmbedding::alibi: return "alibi";
    }
    return {};
}

std::string bias_text(const ModelShape& model) {
    std::string others;
    const auto add = [&](bool bias, std::string_view name) {
        if (bias != model.bias) others += text(others.empty() ? "" : ", ", name);
    };
    add(model.qkv_bias, "q, k, v");
    add(model.attention_bias, "attn.proj");
    if (model.normalization == Normalization::layernorm) add(model.norm_bias, "norms");
    const std::string head = model.head_bias ? ", head bias" : "";
    if (others.empty()) return text(model.bias ? ", biases" : ", no biases", head);
    return text(model.bias ? ", biases except of " : ", biases of ", others, head);
}

std::string qk_norm_text(QkNorm norm) {
    switch (norm) {
        case QkNorm::none: return "";
        case QkNorm::head: return ", norms of q and k";
        case QkNorm::all: return ", norms of q and k over all heads";
    }
    return {};
}

/// The properties of the block and of the model's ends that differ from GPT-2's.
std::string variant_text(const ModelShape& model) {
    const auto cap = [](std::string_view name, const std::optional<double>& value) {
        return value ? text(", ", name, " capped at ", *value) : std::string();
    };
    std::string out;
    if (model.norm_placement != NormPlacement::before)
        out += text(", norms ", model.norm_placement == NormPlacement::after ? "" : "before and ",
                    "after the halves");
    if (model.parallel_residual != ParallelResidual::none)
        out +=
            text(", parallel halves with ",
                 model.parallel_residual == ParallelResidual::one_norm ? "one norm" : "two norms");
    out += cap("scores", model.attention_softcap);
    if (model.attention_sinks) out += ", attention sinks";
    out += cap("logits", model.logit_softcap);
    if (model.embedding_scale != 1) out += text(", embeddings x ", model.embedding_scale);
    if (model.embedding_norm) out += ", norm of embeddings";
    return out;
}

std::string window_text(const ModelShape& model) {
    if (!model.sliding_window) return "";
    const std::int64_t full = std::ssize(model.full_attention_layers);
    return text(", window of ", counted(*model.sliding_window, "token"),
                full > 0 ? text(" except in ", counted(full, "layer")) : "");
}

/// Empty if all layers have experts.
std::string ffn_text(const ModelShape& model) {
    const bool dense = model.expert_layers(model.layers) < model.layers;
    return dense ? text(", ffn ", model.ffn) : "";
}

std::string shared_text(const SharedExpertSpec& shared) {
    return text(", and a shared one", shared.gate ? " with a gate" : "", " of ffn ",
                shared.ffn_hidden_size);
}

std::string experts_rows(const ModelShape& model) {
    if (!model.experts) return "";
    const ExpertsSpec& experts = *model.experts;
    const RouterSpec& router = experts.router;
    const BalanceSpec& balance = experts.balance;
    const std::int64_t layers = model.expert_layers(model.layers);
    const auto weight = [](std::string_view name, double value) {
        return value > 0 ? text(", ", name, " ", value) : std::string();
    };
    return row("experts",
               text(experts.per_token, " of ", experts.count, " for each token, of ffn ",
                    experts.ffn_hidden_size, experts.shared ? shared_text(*experts.shared) : "",
                    ", in ", layers < model.layers ? text(layers, " of ") : "",
                    counted(model.layers, "layer"), "; ", grouped(active_parameters(model)),
                    " parameters are active")) +
           row("", text("router ", name_of(router.score),
                        router.groups ? text(", ", router.groups->keep, " of ",
                                             counted(router.groups->count, "group"))
                                      : "",
                        router.normalize ? ", normalized" : "",
                        router.scale != 1 ? text(" x ", router.scale) : "",
                        balance.bias_rate ? text(", bias moves by ", *balance.bias_rate) : "",
                        weight("balance loss", balance.aux_weight),
                        weight("balance loss of a sequence", balance.sequence_aux_weight),
                        weight("z-loss", balance.z_weight)));
}

std::string model_rows(const ModelShape& model) {
    const std::string groups =
        model.groups == model.heads ? "" : text(", ", counted(model.groups, "query group"));
    return row("model", text(grouped(parameter_count(model)), " parameters: ",
                             counted(model.layers, "layer"), ", hidden ", model.hidden, ", ",
                             counted(model.heads, "head"), " of ", model.head_dim, groups,
                             ffn_text(model), ", vocabulary ", grouped(model.vocab))) +
           row("", text(positions_text(model), ", ", name_of(model.normalization), ", ",
                        name_of(model.activation), bias_text(model), qk_norm_text(model.qk_norm),
                        variant_text(model), window_text(model),
                        model.tie_embeddings ? ", tied head" : ", untied head", ", dropout ",
                        model.dropout));
}

std::string percent(double share) {
    return text(fixed(100 * share, 0), " %");
}

std::string objective_row(const RunPlan& plan) {
    const auto* const mlm = std::get_if<MlmSpec>(&plan.objective);
    if (mlm == nullptr) return "";
    const std::string spans =
        mlm->masking == Masking::span ? text(" in spans of at most ", mlm->max_span) : "";
    const std::string id = mlm->mask_id ? text(*mlm->mask_id) : "of the tokenizer";
    return row("objective", text("mlm, bidirectional attention; chooses ", percent(mlm->mask_rate),
                                 " of the tokens", spans, ", of which ", percent(mlm->mask_share),
                                 " become the mask token (", id, "), ", percent(mlm->random_share),
                                 " a random one"));
}

std::string trained_row(const RunPlan& plan) {
    const std::int64_t frozen = frozen_parameters(plan);
    if (frozen == 0) return "";
    return row("trained", text(grouped(parameter_count(plan.model) - frozen), " parameters; ",
                               grouped(frozen), " are frozen"));
}

/// "3 x 1 on each data rank", or "3 x 1 on 2 data ranks, 2 x 1 on 1".
std::string microbatches_text(const RunPlan& plan) {
    const std::int64_t global = plan.batch.global_batch_size;
    const std::int64_t data = plan.mesh.data;
    const std::int64_t most = plan.microbatches(global);
    const std::string size = text(" x ", plan.micro_batch_size, " on ");
    const std::int64_t longer = global / plan.micro_batch_size % data;
    if (plan.microbatches(global, data - 1) == most)
        return text(grouped(most), size, "each data rank");
    return text(grouped(most), size, counted(longer, "data rank"), ", ", grouped(most - 1), size,
                data - longer);
}

std::string batch_rows(const RunPlan& plan) {
    const BatchSchedule& batch = plan.batch;
    std::string rows =
        row("batch", text(counted(batch.global_batch_size, "sequence"), " of ",
                          counted(plan.seq_length, "token"), ", in ", microbatches_text(plan)));
    if (batch.rampup.samples > 0) {
        rows += row("ramp-up", text("from ", batch.rampup.start, " by ", batch.rampup.increment,
                                    " over ", counted(batch.rampup.samples, "sample")));
    }
    return rows;
}

std::string epochs_row(std::int64_t tokens, std::int64_t training_tokens) {
    if (training_tokens == 0) return "";
    const double epochs = static_cast<double>(tokens) / static_cast<double>(training_tokens);
    return row("epochs",
               text(fixed(epochs, 2), " of ", counted(training_tokens, "training token")));
}

std::string lr_rows(const RunPlan& plan) {
    const LrSchedule& lr = plan.lr;
    const std::string warmup =
        lr.warmup_steps == 0 ? "" : text(", warm-up of ", counted(lr.warmup_steps, "step"));
    std::string decay;
    const bool decays = lr.kind != LrKind::constant && lr.warmup_steps < lr.decay_steps;
    if (decays) decay = text(", to ", lr.min_lr, " at step ", lr.decay_steps);
    if (lr.kind == LrKind::inverse_sqrt) decay = text(", not below ", lr.min_lr);
    if (lr.kind == LrKind::wsd) decay += text(" over ", counted(lr.wsd_decay_steps, "step"));
    return row("learning rate", text(lr.lr, ", ", name_of(lr.kind), warmup, decay)) +
           (plan.shortening_note.empty() ? "" : row("", plan.shortening_note));
}

/// The parts of the state that ranks divide besides the optimizer's.
std::string shard_row(const RunPlan& plan) {
    const std::int64_t groups = plan.mesh.shard > 1 ? plan.mesh.shard : 0;
    if (!plan.shards_gradients() && groups == 0) return "";
    const std::string among =
        groups > 0 ? text(" among groups of ", counted(groups, "rank")) : std::string();
    const std::string kept = plan.shards_weights() && !plan.reshard
                                 ? ", gathered weights are kept until the update"
                                 : "";
    return row("shard", text(plan.shards_weights()     ? "weights, gradients and optimizer"
                             : plan.shards_gradients() ? "gradients and optimizer"
                                                       : "optimizer",
                             among, kept));
}

std::string pieces_row(const RunPlan& plan) {
    if (plan.tensor_pieces == 1) return "";
    return row("linear layers",
               text("in ", plan.tensor_pieces, " pieces, to overlap with messages of tp"));
}

std::string deferred_text(const RunPlan& plan) {
    if (plan.deferred_heads == 0) return "";
    return text("; at the end of a step, the weight gradients of the last ", plan.deferred_heads,
                plan.deferred_heads == 1 ? " microbatch" : " microbatches");
}

}  // namespace

std::string describe(const RunPlan& plan, std::int64_t training_tokens) {
    const std::int64_t samples = plan.batch.samples_of(plan.steps);
    const std::int64_t tokens = checked_mul(samples, plan.seq_length);
    const double flops = flops_per_token(plan);
    const MeshShape& mesh = plan.mesh;
    return model_rows(plan.model) + experts_rows(plan.model) + objective_row(plan) +
           trained_row(plan) + batch_rows(plan) +
           row("steps", text(grouped(plan.steps), ": ", counted(samples, "sample"), ", ",
                             counted(tokens, "token"), "; one pass of the data order is ",
                             plan.num_samples ? counted(*plan.num_samples, "sample")
                                              : std::string("as long as the corpus"))) +
           epochs_row(tokens, training_tokens) + lr_rows(plan) +
           row("mesh",
               text("data ", mesh.data, " x pipeline ", mesh.pipeline, " x context ", mesh.context,
                    " x tensor ", mesh.tensor, " = ", counted(mesh.size(), "rank"),
                    mesh.expert > 1 ? text(", of which ", mesh.expert, " divide the experts")
                                    : "")) +
           shard_row(plan) + pieces_row(plan) +
           row("precision", text(name_of(plan.compute),
                                 plan.fp8 ? ", linear layers of the inner blocks in fp8" : "",
                                 plan.fp8_blocks ? " with scales for blocks" : "",
                                 plan.fp8 && !plan.fp8_weight_gradients
                                     ? text(" and weight gradients in ", name_of(plan.compute))
                                     : "",
                                 ", gradients reduced in ", name_of(plan.grad_reduce))) +
           row("head", text("logits of ", counted(plan.head_rows, "token"), " at a time",
                            deferred_text(plan))) +
           row("work", text(human_count(flops), "FLOP per token, ",
                            human_count(flops * static_cast<double>(tokens)), "FLOP in total"));
}

}  // namespace gptrain
