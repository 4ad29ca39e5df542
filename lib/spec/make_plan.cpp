#include "spec/make_plan.h"

#include <algorithm>

#include "base/checked.h"
#include "spec/adapter_plan.h"
#include "spec/expert_checks.h"
#include "spec/fault_checks.h"
#include "spec/model_checks.h"
#include "spec/model_tensors.h"
#include "spec/objective_plan.h"
#include "spec/parallel_plan.h"
#include "spec/plan_checks.h"
#include "spec/quantised_checks.h"
#include "spec/shard_plan.h"
#include "spec/small_state.h"
#include "spec/step_plan.h"

namespace gptrain {
namespace {

MeshShape mesh_of(const RunSpec& spec, const PlanTarget& target) {
    const ParallelSpec& parallel = spec.parallel;
    MeshShape mesh = {parallel.data.value_or(1), parallel.pipeline, parallel.context,
                      parallel.tensor};
    const std::string ranks = text(target.world_size, target.world_size == 1 ? " rank" : " ranks",
                                   target.dry_run ? " (--world-size)" : " (as started)");
    if (!parallel.data) {
        require(target.world_size % mesh.size() == 0, "parallel: ", ranks,
                " is not a multiple of pipeline x context x tensor = ", mesh.size(),
                "; change the number of ranks or the mesh");
        mesh.data = target.world_size / mesh.size();
    }
    mesh.expert = parallel.expert;
    require(mesh.size() == target.world_size,
            "parallel: data x pipeline x context x tensor = ", mesh.size(), ", but the run has ",
            ranks, "; set parallel.data to auto or change the number of ranks");
    return mesh;
}

ModelShape model_shape(const RunSpec& spec) {
    const ModelSpec& model = spec.model;
    const std::int64_t seq_length = spec.training.seq_length;
    if (!model.head_dim) {
        require(model.hidden_size % model.num_attention_heads == 0, "model.hidden_size ",
                model.hidden_size, " is not a multiple of model.num_attention_heads ",
                model.num_attention_heads, "; change one of them or set model.head_dim");
    }
    ModelShape shape{ModelVariant(model)};
    shape.layers = model.num_layers;
    shape.hidden = model.hidden_size;
    shape.heads = model.num_attention_heads;
    shape.groups = model.num_query_groups.value_or(shape.heads);
    shape.head_dim = model.head_dim.value_or(shape.hidden / shape.heads);
    shape.ffn = model.ffn_hidden_size.value_or(4 * shape.hidden);
    shape.vocab = model.vocab_size;
    shape.max_positions = model.max_position_embeddings.value_or(seq_length);
    shape.qkv_bias = model.qkv_bias.value_or(model.bias);
    shape.attention_bias = model.attention_bias.value_or(model.bias);
    shape.norm_bias = model.norm_bias.value_or(model.bias);
    shape.lora = lora_of(spec);
    shape.prompt = soft_prompt_of(spec);
    shape.bidirectional = std::holds_alternative<MlmSpec>(spec.objective);
    std::sort(shape.full_attention_layers.begin(), shape.full_attention_layers.end());
    std::sort(shape.unrotated_layers.begin(), shape.unrotated_layers.end());
    check_positions(spec);
    check_block(model);
    check_experts(spec);
    require_multiple("model.num_attention_heads", shape.heads, "model.num_query_groups",
                     shape.groups);
    require(shape.head_dim <= 256, "model.head_dim: model.hidden_size ", shape.hidden,
            " / model.num_attention_heads ", shape.heads, " = ", shape.head_dim,
            " is above 256; use more heads");
    check_rotated_dims(shape);
    require(seq_length <= shape.max_positions, "training.seq_length ", seq_length,
            " is above model.max_position_embeddings ", shape.max_positions,
            "; lower it or raise model.max_position_embeddings");
    return shape;
}

void check_data(const RunSpec& spec) {
    const DataSpec& data = spec.data;
    require(!spec.eval_tasks || data.tokenizer,
            "eval_tasks needs data.tokenizer, which reads the texts of tasks; set it or remove "
            "eval_tasks");
    const bool eod_known = data.eod_id || data.tokenizer;
    const auto need_eod = [&](bool wanted, std::string_view key) {
        require(!wanted || eod_known, key,
                ": true needs an end-of-document id; set data.eod_id or data.tokenizer");
    };
    need_eod(data.eod_mask_loss, "data.eod_mask_loss");
    need_eod(data.reset_at_eod.value_or(false), "data.reset_at_eod");
    require(data.eod_id.value_or(0) < spec.model.vocab_size, "data.eod_id ",
            data.eod_id.value_or(0), " is not below model.vocab_size ", spec.model.vocab_size,
            "; lower it or raise model.vocab_size");
}

DType dtype_of(Precision precision) {
    switch (precision) {
        case Precision::fp32: return DType::f32;
        case Precision::bf16:
        case Precision::fp8: return DType::bf16;
        case Precision::fp16: return DType::f16;
    }
    return DType::f32;
}

Precision precision_of(const RunPlan& plan) {
    if (plan.fp8) return Precision::fp8;
    return plan.compute == DType::bf16  ? Precision::bf16
           : plan.compute == DType::f16 ? Precision::fp16
                                        : Precision::fp32;
}

/// Checks the sizes of every rank, as FP8 GEMMs require.
void check_fp8(const RunPlan& plan) {
    const bool blocks = plan.fp8_blocks;
    const ModelShape& model = plan.model;
    const ModelShape& local = plan.local;
    require(model.layers > 2,
            "precision.compute: fp8 is used in all blocks except the first and the "
            "last, but model.num_layers is ",
            model.layers, "; set it to bf16");
    const auto check = [&](std::string_view what, std::int64_t size, std::string_view axis,
                           std::int64_t ranks, bool in_blocks) {
        const std::int64_t unit = in_blocks ? 128 : 16;
        const std::string of_rank =
            ranks > 1 ? text(" on each of ", ranks, " ranks of parallel.", axis) : "";
        require(size % unit == 0,
                in_blocks ? "precision.fp8_recipe: block" : "precision.compute: fp8",
                " needs sizes that are multiples of ", unit, ", but ", what, " is ", size, of_rank,
                "; change it or set ",
                in_blocks ? "precision.fp8_recipe to tensor" : "precision.compute to bf16");
    };
    const auto multiple = [&](std::string_view what, std::int64_t size, std::string_view axis,
                              std::int64_t ranks) { check(what, size, axis, ranks, false); };
    const std::int64_t tensor = plan.mesh.tensor;
    const auto width = [&](std::string_view what, std::int64_t size, std::int64_t ranks) {
        check(what, size, "tensor", ranks, blocks);
    };
    width("model.hidden_size", model.hidden, 1);
    width("model.ffn_hidden_size", local.ffn, tensor);
    width("model.num_attention_heads x head_dim", local.heads * local.head_dim, tensor);
    if (blocks) {
        // No block then has rows of q and k, of k and v, or of two ranks.
        width("model.num_query_groups x head_dim", local.groups * local.head_dim, tensor);
    } else {
        width("(model.num_attention_heads + 2 x num_query_groups) x head_dim",
              (local.heads + 2 * local.groups) * local.head_dim, tensor);
    }
    const std::int64_t rows = plan.micro_batch_size * plan.local_length();
    multiple("training.micro_batch_size x seq_length", rows, "context", plan.mesh.context);
    if (plan.tensor_pieces > 1)
        multiple(text("that in ", plan.tensor_pieces, " pieces (parallel.overlap_tensor)"),
                 rows / plan.tensor_pieces, "context", plan.mesh.context);
}

std::int64_t head_rows_of(std::int64_t rows, std::int64_t vocab, DType dtype, bool cuda) {
    constexpr std::int64_t unit = 128;
    const std::int64_t budget = std::int64_t{cuda ? 1024 : 128} << 20;
    const std::int64_t fitting = std::max(budget / (vocab * size_of(dtype)) / unit * unit, unit);
    const std::int64_t chunks = div_ceil(rows, fitting);
    return std::min(rows, round_up(div_ceil(rows, chunks), unit));
}

OptimizerPlan optimizer_plan(const RunSpec& spec) {
    require(spec.optimizer.name == "muon" || spec.optimizer.muon == MuonSpec(),
            "optimizer.muon needs optimizer.name muon; set that or remove the section");
    return {.betas = spec.optimizer.betas,
            .eps = spec.optimizer.eps,
            .weight_decay = spec.optimizer.weight_decay,
            .clip_grad = spec.optimizer.clip_grad,
            .muon = spec.optimizer.muon,
            .state = spec.optimizer.state,
            .main_weights = dtype_of(spec.precision.main_weights),
            .seed = spec.seed};
}

void check_offload(const RunPlan& plan) {
    if (plan.offload.activations == OffloadedActivations::off) return;
    require(plan.recompute == Recompute::full,
            "offload.activations: blocks needs recompute full, but it is ", name_of(plan.recompute),
            ": what that keeps of a block takes longer to copy than the block to compute; set "
            "recompute to full or offload.activations to off");
    const bool plain = plan.schedule == ScheduleKind::one_f_one_b && plan.virtual_stages == 1;
    require(plain,
            "offload.activations: blocks needs parallel.schedule 1f1b with virtual_stages 1, but "
            "they are ",
            name_of(plan.schedule), " and ", plan.virtual_stages,
            "; change these or set offload.activations to off");
}

/// Mesh, model and schedule.
void set_model(RunPlan& plan, const RunSpec& spec, const PlanTarget& target) {
    const ParallelSpec& parallel = spec.parallel;
    plan.mesh = mesh_of(spec, target);
    plan.model = model_shape(spec);
    check_expert_axis(spec, plan.mesh);
    plan.local = local_shape(plan.model, plan.mesh);
    plan.mesh.shard = shard_ranks(parallel, plan.mesh);
    plan.mesh.kv = std::max<std::int64_t>(plan.mesh.tensor / plan.model.groups, 1);
    plan.sequence_parallel = parallel.sequence_parallel && plan.mesh.tensor > 1;
    plan.peer_messages = parallel.peer == PeerMessages::automatic;
    plan.schedule = parallel.schedule;
    plan.virtual_stages = parallel.virtual_stages;
    plan.chunk_layers = split_layers(spec, plan.model, parallel.pipeline * parallel.virtual_stages);
    plan.context_method = parallel.context_method;
    plan.seq_length = spec.training.seq_length;
}

void set_precision(RunPlan& plan, const RunSpec& spec, const PlanTarget& target) {
    const Precision precision =
        spec.precision.compute.value_or(target.cuda ? Precision::bf16 : Precision::fp32);
    plan.compute = dtype_of(precision);
    plan.fp8 = precision == Precision::fp8;
    const Fp8Recipe recipe = spec.precision.fp8_recipe.value_or(Fp8Recipe::tensor);
    plan.fp8_blocks = recipe == Fp8Recipe::block;
    require(plan.fp8 || !plan.fp8_blocks,
            "precision.fp8_recipe: block needs precision.compute fp8, but it is ",
            name_of(precision), "; set that or remove the key");
    const Precision gradients =
        spec.precision.fp8_weight_gradients.value_or(usual_weight_gradients(recipe));
    plan.fp8_weight_gradients = plan.fp8 && gradients == Precision::fp8;
    plan.int8_frozen = spec.precision.frozen == FrozenWeights::int8;
    plan.nf4_frozen = spec.precision.frozen == FrozenWeights::nf4;
    plan.nf4_double = spec.precision.nf4_double;
    check_quantised(spec, plan);
    plan.grad_reduce = dtype_of(spec.precision.grad_reduce);
}

std::int64_t validation_sources(const RunSpec& spec) {
    const auto& sources = spec.data.validation.empty() ? spec.data.train : spec.data.validation;
    const bool evaluates = spec.training.eval_interval > 0 && spec.training.eval_steps > 0;
    return evaluates && sources.size() > 1 ? std::ssize(sources) : 0;
}

RunPlan derive(const RunSpec& spec, const PlanTarget& target) {
    RunPlan plan;
    require(spec.output_dir != "/", "output_dir: / cannot hold a run; name a folder in it");
    plan.seed = spec.seed;
    set_model(plan, spec, target);
    check_data(spec);
    plan.end_of_document = {.id = spec.data.eod_id,
                            .mask_loss = spec.data.eod_mask_loss,
                            .reset = spec.data.reset_at_eod.value_or(false)};
    check_objective(spec);
    plan.objective = spec.objective;
    set_precision(plan, spec, target);
    set_shard(plan, spec);
    plan.messages_in_order = target.cuda;
    plan.deterministic = spec.deterministic;
    plan.recompute = spec.recompute;
    plan.parameters = {.frozen = spec.training.frozen,
                       .adapter = spec.adapter.has_value(),
                       .muon = spec.optimizer.name == "muon"};
    check_frozen(plan);
    plan.overwrites_gradients = !has_fault(spec, InjectedFault::Kind::nan);
    plan.optimizer = optimizer_plan(spec);
    plan.offload = spec.offload;
    check_offload(plan);
    plan.validation_sources = validation_sources(spec);
    plan.scores_tasks = spec.eval_tasks.has_value();
    plan.async_checkpoint = spec.checkpoint.async;
    plan.local_copies = spec.checkpoint.local.has_value();
    plan.memory_copies = spec.checkpoint.memory.has_value();
    plan.micro_batch_size = spec.training.micro_batch_size;
    check_parallel(plan);
    check_adapter(plan);
    check_small_state(plan);
    plan.int8_warning = int8_warning(plan);
    if (plan.nf4_frozen) check_nf4_blocks(plan);
    if (spec.parallel.overlap_tensor == OverlapTensor::on) plan.tensor_pieces = tensor_pieces(plan);
    const bool tensor_on_node =
        target.ranks_per_node > 0 && target.ranks_per_node % plan.mesh.tensor == 0;
    if (plan.peer_messages && target.cuda && tensor_on_node) take_pieces_by_rank(plan);
    set_steps(plan, spec);
    if (plan.fp8) check_fp8(plan);
    check_replays(spec);
    check_injected_faults(spec, plan.mesh);
    plan.head_rows = head_rows_of(plan.micro_batch_size * plan.local_length(), plan.local.vocab,
                                  plan.compute, target.cuda);
    plan.deferred_heads = deferred_heads(plan);
    return plan;
}

/// The result of `make`, whose errors get the location of the key.
auto with_locations(const RunSpec& spec, const auto& make) {
    try {
        return make();
    } catch (const Error& error) {
        fail(error.code(), located(spec.locations.of(error.what()), error.what()));
    }
}

}  // namespace

std::int64_t min_ranks(const ParallelSpec& parallel) {
    const std::int64_t of_copy = parallel.context * parallel.tensor;
    // The experts of an expert axis may need several copies of the rest.
    const std::int64_t copies = div_ceil(parallel.expert, of_copy);
    return parallel.data.value_or(copies) * parallel.pipeline * of_copy;
}

RunPlan make_plan(const RunSpec& spec, const PlanTarget& target) {
    return with_locations(spec, [&] { return derive(spec, target); });
}

void check_mesh(const RunSpec& spec, const PlanTarget& target) {
    with_locations(spec, [&] {
        RunPlan plan;
        set_model(plan, spec, target);
        check_parallel(plan);
    });
}

RunSpec effective_spec(const RunSpec& spec, const RunPlan& plan) {
    RunSpec effective = spec;
    effective.model.num_query_groups = plan.model.groups;
    effective.model.head_dim = plan.model.head_dim;
    effective.model.ffn_hidden_size = plan.model.ffn;
    effective.model.max_position_embeddings = plan.model.max_positions;
    effective.model.qkv_bias = plan.model.qkv_bias;
    effective.model.attention_bias = plan.model.attention_bias;
    effective.model.norm_bias = plan.model.norm_bias;
    if (plan.model.prompt && plan.model.prompt->encoder_hidden > 0)
        effective.adapter->encoder_hidden_size = plan.model.prompt->encoder_hidden;
    effective.objective = plan.objective;
    effective.data.num_samples = plan.num_samples;
    effective.data.eod_id = plan.end_of_document.id;
    effective.data.reset_at_eod = plan.end_of_document.reset;
    effective.training.global_batch_size = plan.batch.global_batch_size;
    effective.parallel.data = plan.mesh.data;
    effective.precision.compute = precision_of(plan);
    if (plan.fp8) {
        effective.precision.fp8_recipe = plan.fp8_blocks ? Fp8Recipe::block : Fp8Recipe::tensor;
        effective.precision.fp8_weight_gradients =
            plan.fp8_weight_gradients ? Precision::fp8 : Precision::bf16;
    }
    effective.lr_schedule.decay_steps = plan.lr.decay_steps;
    effective.lr_schedule.warmup_steps = plan.lr.warmup_steps;
    effective.lr_schedule.wsd_decay_steps = plan.lr.wsd_decay_steps;
    return effective;
}

RunSpec restart_spec(const RunSpec& spec, const RunPlan& plan) {
    RunSpec restart = effective_spec(spec, plan);
    restart.data.num_samples = spec.data.num_samples;
    restart.parallel.data = spec.parallel.data;
    restart.lr_schedule = spec.lr_schedule;
    return restart;
}

}  // namespace gptrain
