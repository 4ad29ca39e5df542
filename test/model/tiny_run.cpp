#include "tiny_run.h"

#include <algorithm>
#include <cmath>

#include "base/float_values.h"
#include "base/philox.h"
#include "data/batch_loader.h"
#include "spec/make_plan.h"

namespace gptrain::test {

RunSpec tiny_spec() {
    RunSpec spec;
    spec.name = "tiny";
    spec.output_dir = "tiny";
    spec.seed = 7;
    spec.model.num_layers = 3;
    spec.model.hidden_size = 48;
    spec.model.num_attention_heads = 4;
    spec.model.vocab_size = 101;
    spec.data.train = {{"none", 1.0}};
    spec.training.seq_length = 24;
    spec.training.micro_batch_size = 2;
    spec.training.global_batch_size = 4;
    spec.training.steps = 10;
    spec.precision.compute = Precision::fp32;
    spec.optimizer.lr = 1e-2;
    spec.checkpoint.async = false;
    return spec;
}

RunSpec tiny_llama_spec() {
    RunSpec spec = tiny_spec();
    spec.model.num_query_groups = 2;
    spec.model.position_embedding = PositionEmbedding::rope;
    spec.model.normalization = Normalization::rmsnorm;
    spec.model.activation = Activation::swiglu;
    spec.model.ffn_hidden_size = 56;
    spec.model.bias = false;
    spec.model.tie_embeddings = false;
    return spec;
}

RunSpec tiny_qwen_spec() {
    RunSpec spec = tiny_llama_spec();
    spec.model.qkv_bias = true;
    spec.model.qk_norm = QkNorm::head;
    spec.model.rope_scaling = RopeScaling{
        .kind = RopeScalingKind::yarn, .factor = 4, .original_max_position_embeddings = 8};
    spec.model.sliding_window = 5;
    spec.model.full_attention_layers = {1};
    return spec;
}

RunSpec tiny_neox_spec() {
    RunSpec spec = tiny_spec();
    spec.model.position_embedding = PositionEmbedding::rope;
    spec.model.rope_scaling = RopeScaling{
        .kind = RopeScalingKind::llama3, .factor = 4, .original_max_position_embeddings = 16};
    spec.model.activation = Activation::gelu_erf;
    spec.model.qkv_bias = false;
    spec.model.sliding_window = 7;
    return spec;
}

RunSpec tiny_olmo_spec() {
    RunSpec spec = tiny_llama_spec();
    spec.model.norm_placement = NormPlacement::after;
    spec.model.qk_norm = QkNorm::all;
    // The norms divide by the size of what the halves add; gradients must stay within fp16.
    spec.model.init_std = 0.2;
    return spec;
}

RunSpec tiny_gemma_spec() {
    RunSpec spec = tiny_llama_spec();
    spec.model.norm_placement = NormPlacement::both;
    spec.model.activation = Activation::geglu;
    spec.model.embedding_scale = 6.9;
    return spec;
}

RunSpec tiny_falcon_spec() {
    RunSpec spec = tiny_spec();
    spec.model.parallel_residual = ParallelResidual::two_norms;
    spec.model.activation = Activation::relu2;
    spec.model.embedding_norm = spec.model.head_bias = true;
    spec.model.attention_bias = false;
    return spec;
}

RunSpec tiny_cohere_spec() {
    RunSpec spec = tiny_falcon_spec();
    spec.model.parallel_residual = ParallelResidual::one_norm;
    spec.model.activation = Activation::relu;
    spec.model.bias = false;
    spec.model.norm_bias = true;
    return spec;
}

RunSpec tiny_experts_spec() {
    RunSpec spec = tiny_llama_spec();
    spec.model.activation = Activation::clamped_swiglu;
    spec.model.experts = ExpertsSpec{.count = 6,
                                     .per_token = 2,
                                     .ffn_hidden_size = 24,
                                     .bias = true,
                                     .router = {.normalize = false, .logit_bias = true},
                                     .balance = {.bias_rate = 0.01, .z_weight = 0.01}};
    return spec;
}

RunSpec tiny_shared_experts_spec() {
    RunSpec spec = tiny_llama_spec();
    spec.model.experts =
        ExpertsSpec{.count = 8,
                    .per_token = 3,
                    .ffn_hidden_size = 16,
                    .shared = SharedExpertSpec{.ffn_hidden_size = 32, .gate = true},
                    .layers = {.first_dense = 1},
                    .router = {.score = RouterScore::sigmoid,
                               .scale = 2.5,
                               .groups = RouterGroupsSpec{.count = 4, .keep = 2}},
                    .balance = {.bias_rate = 0.01, .sequence_aux_weight = 0.01, .z_weight = 0}};
    return spec;
}

RunSpec in_blocks(RunSpec spec) {
    spec.model.hidden_size = 256;
    spec.model.num_attention_heads = 4;
    spec.model.ffn_hidden_size = 256;
    spec.precision.compute = Precision::fp8;
    spec.precision.fp8_recipe = Fp8Recipe::block;
    return spec;
}

RunSpec with_wide_heads(RunSpec spec) {
    spec.model.num_attention_heads = 2;
    return spec;
}

RunSpec with_lora(RunSpec spec, bool all_layers) {
    using enum LinearName;
    spec.init_from = "unused";
    spec.adapter = AdapterSpec{.rank = 4, .alpha = 24, .dropout = 0.2};
    spec.adapter->targets = {attn_q, attn_v, mlp_proj};
    if (all_layers) spec.adapter->targets = {attn_q, attn_k, attn_v, attn_proj, mlp_fc, mlp_proj};
    if (gated(spec.model.activation)) spec.adapter->targets.push_back(mlp_gate);
    if (spec.model.experts)
        std::erase_if(spec.adapter->targets, [](LinearName name) { return name >= mlp_fc; });
    return spec;
}

RunSpec with_virtual_tokens(RunSpec spec, AdapterKind kind, std::int64_t count) {
    spec.init_from = "unused";
    spec.adapter = AdapterSpec{.kind = kind, .virtual_tokens = count};
    if (kind == AdapterKind::p_tuning) spec.adapter->encoder_hidden_size = 12;
    return spec;
}

namespace {

RunPlan plan_for(const RunSpec& spec, std::int64_t ranks, const Backend& backend,
                 const PlanChange& change) {
    RunPlan plan = make_plan(spec, {.world_size = ranks, .cuda = backend.name() == "cuda"});
    if (change) change(plan);
    return plan;
}

}  // namespace

TinyRun::TinyRun(const RunSpec& spec) : TinyRun(spec, tested_backend()) {}

TinyRun::TinyRun(const RunSpec& spec, std::unique_ptr<Backend> backend)
    : TinyRun(spec, std::move(backend), 1,
              [](const RunPlan&, Backend&) { return one_rank_mesh(); }) {}

TinyRun::TinyRun(const RunSpec& spec, std::unique_ptr<Backend> backend, std::int64_t ranks,
                 const std::function<Mesh(const RunPlan&, Backend&)>& make_mesh,
                 const PlanChange& change)
    : backend_(std::move(backend)),
      plan_(plan_for(spec, ranks, *backend_, change)),
      mesh_(make_mesh(plan_, *backend_)),
      cost_(measure_run(plan_, mesh_.place(), memory_of(*backend_))),
      engine_(std::make_unique<Engine>(*backend_, mesh_, plan_, cost_.memory)) {
    engine_->initialise();
}

double TinyRun::step(const StepBatch& batch) {
    engine_->step(batch);
    StepState state = engine_->read_state();
    for (std::int64_t slices = 2; state.skip == Skip::repeat; slices *= 2) {
        engine_->step(batch, 0, {.slices = slices, .repeats = true});
        state = engine_->read_state();
        ++repeats_;
    }
    return state.loss_sum / state.token_weight_sum;
}

NamedValues TinyRun::collect(const std::string& group,
                             const std::function<void(const StateVisitor&)>& visit) {
    NamedValues values;
    visit([&](const NamedState& state) {
        if (state.group != group) return;
        values[state.shard.name] = host_values(*backend_, state);
    });
    return values;
}

NamedValues TinyRun::gradients() {
    return collect("main_grad", [&](const StateVisitor& v) { engine_->visit_gradients(v); });
}

NamedValues TinyRun::state(const std::string& group) {
    return collect(group, [&](const StateVisitor& v) { visit_state(v); });
}

void TinyRun::visit_state(const StateVisitor& visitor) const {
    engine_->visit(visitor);
    if (plan_.parameters.adapter) engine_->visit_model(visitor);
}

void TinyRun::set_state(const std::string& group, const NamedValues& values) {
    visit_state([&](const NamedState& state) {
        if (state.group != group) return;
        std::vector<float> given = values.at(state.shard.name);
        backend_->upload(state.values, from_floats(given, state.values.dtype()));
    });
}

void TinyRun::set_weights(const NamedValues& weights) {
    set_state("weight", weights);
    engine_->restore(engine_->read_state());
}

std::vector<float> host_values(Backend& backend, const NamedState& state) {
    std::vector<float> host(static_cast<std::size_t>(state.shard.elements()));
    if (state.values.dtype() == DType::f32) {
        backend.download(std::as_writable_bytes(std::span(host)), state.values);
        return host;
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(state.values.bytes()));
    backend.download(bytes, state.values);
    to_floats(bytes, state.values.dtype(), 0, 1, host);
    return host;
}

StepBatch random_batch(const RunPlan& plan, std::int64_t step, std::uint64_t seed,
                       std::int64_t data_rank) {
    const std::int64_t length = plan.seq_length;
    const std::int64_t virtual_tokens = plan.model.virtual_tokens();
    const auto token = [&](std::int64_t sequence, std::int64_t position) {
        const std::int64_t document = sequence % 2 == 0 ? 0 : position * 2 / length * (length / 2);
        if (position - document < virtual_tokens)
            return static_cast<std::int32_t>(position - document - virtual_tokens);
        const PhiloxBlock words =
            philox({static_cast<std::uint32_t>(sequence), static_cast<std::uint32_t>(position),
                    static_cast<std::uint32_t>(step), 0},
                   philox_stream(seed, 0, 0, 0));
        return static_cast<std::int32_t>(words[0] % static_cast<std::uint32_t>(plan.model.vocab));
    };
    // With documents each sequence has two, of lengths that differ from sequence to sequence.
    const auto document_begin = [&](std::int64_t sequence, std::int64_t position) {
        const std::int64_t second = (5 * sequence + 3) % length;
        return plan.end_of_document.reset && position >= second ? second : 0;
    };
    StepBatch batch;
    batch.step = step;
    batch.global_batch_size = plan.batch.global_batch_size;
    for (std::int64_t first = 0; first < batch.global_batch_size; first += plan.micro_batch_size) {
        Microbatch microbatch;
        microbatch.first_sequence = first;
        for (std::int64_t row = 0; row < plan.micro_batch_size; ++row) {
            for (std::int64_t i = 0; i < length; ++i) {
                const std::int32_t id = token(first + row, i);
                const std::int32_t target = token(first + row, i + 1);
                const float weight = target < 0 || id % 11 == 0 ? 0.0f : 1.0f;
                microbatch.ids.push_back(id);
                microbatch.targets.push_back(target);
                const std::int64_t document = document_begin(first + row, i);
                microbatch.positions.push_back(static_cast<std::int32_t>(i - document));
                if (plan.end_of_document.reset)
                    microbatch.first_visible.push_back(static_cast<std::int32_t>(document));
                if (plan.limits_attention()) {
                    microbatch.first_in_window.push_back(static_cast<std::int32_t>(
                        std::max<std::int64_t>(i + 1 - *plan.model.sliding_window, document)));
                }
                microbatch.weights.push_back(weight);
                batch.weight_sum += weight;
            }
        }
        if (first / plan.micro_batch_size % plan.mesh.data == data_rank)
            batch.microbatches.push_back(std::move(microbatch));
    }
    if (plan.equal_counts()) fill_up(batch, plan.microbatches(batch.global_batch_size, data_rank));
    return batch;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
    double squares = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        squares += std::pow(double{a[i]} - double{b[i]}, 2);
    return std::sqrt(squares);
}

double norm(const std::vector<float>& a) {
    return distance(a, std::vector<float>(a.size()));
}

}  // namespace gptrain::test
