// Compares loss, every gradient and ten steps of AdamW or Muon, of models and of adapters, with
// what PyTorch computes in float64 (make_torch_fixture.py).
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "catch.h"
#include "data/batch_loader.h"
#include "data/indexed_writer.h"
#include "data/sequential_dataset.h"
#include "engine/rank_model.h"
#include "spec/make_plan.h"
#include "support/hdf5_fixture.h"
#include "support/temp_folder.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

/// How much farther from float64 than PyTorch's float32 another float32 implementation may be: both
/// round in different places, and neither is exact everywhere.
constexpr double slack = 4;

/// In this source's folder, or in GPTRAIN_TEST_DATA of the environment: a test may run on a machine
/// other than the one that built it.
std::string test_data(const std::string& name) {
    const char* folder = std::getenv("GPTRAIN_TEST_DATA");
    return std::string(folder != nullptr ? folder : GPTRAIN_TEST_DATA) + "/" + name;
}

class Fixture {
public:
    explicit Fixture(const std::string& name) : file_(test_data(name)) {}

    template <class T>
    T number(const std::string& key) const {
        return read_attribute<T>(file_, "/", key);
    }
    std::string word(const std::string& key) const { return read_text_attribute(file_, "/", key); }
    template <class T>
    std::vector<T> values(const std::string& name) const {
        return read_array<T>(file_, name).values;
    }
    double fp32_error(const std::string& name) const {
        return read_attribute<double>(file_, name, "fp32_error");
    }
    NamedValues group(const std::string& group, const NamedValues& names) const {
        NamedValues result;
        for (const auto& [name, unused] : names)
            result[name] = values<float>(group + "/" + name);
        return result;
    }

    RunSpec spec() const;
    StepBatch batch(std::int64_t step) const;
    /// The first step's batch, as the loader makes it from token files with a loss mask.
    StepBatch loaded_batch() const;
    /// The same as it masks the text.
    StepBatch masked_batch() const;

private:
    bool has(const std::string& key) const { return has_attribute(file_, key); }
    /// The keys that gpt2_tiny.h5 and llama_tiny.h5 lack.
    void read_variant(ModelSpec& model) const;
    /// The keys that only capped_tiny.h5 has.
    void read_scores(ModelSpec& model) const;
    void read_block(ModelSpec& model) const;
    void read_muon(OptimizerSpec& optimizer) const;
    void read_lora(RunSpec& spec) const;
    void read_prompt(RunSpec& spec) const;
    void read_experts(ModelSpec& model) const;
    void read_objective(RunSpec& spec) const;

    std::string file_;
};

void Fixture::read_variant(ModelSpec& model) const {
    const auto whole = [&](const std::string& key) { return number<std::int64_t>(key); };
    model.qkv_bias = whole("qkv_bias") != 0;
    if (whole("qk_norm") != 0) model.qk_norm = QkNorm::head;
    model.sliding_window = whole("sliding_window");
    const std::int64_t full = whole("full_attention_layer");
    if (full >= 0) model.full_attention_layers = {full};
    if (has("attention_softcap")) read_scores(model);
    RopeScaling& scaling = model.rope_scaling.emplace();
    const bool yarn = word("rope_scaling") == "yarn";
    scaling.kind = yarn ? RopeScalingKind::yarn : RopeScalingKind::llama3;
    scaling.factor = number<double>("factor");
    scaling.original_max_position_embeddings = whole("original_max_position_embeddings");
}

void Fixture::read_scores(ModelSpec& model) const {
    model.rotary_fraction = number<double>("rotary_fraction");
    model.unrotated_layers = {number<std::int64_t>("unrotated_layer")};
    model.window_rope_theta = number<double>("window_rope_theta");
    model.attention_softcap = number<double>("attention_softcap");
    model.attention_sinks = number<std::int64_t>("attention_sinks") != 0;
    model.logit_softcap = number<double>("logit_softcap");
}

void Fixture::read_block(ModelSpec& model) const {
    const auto set = [&](const std::string& key) { return number<std::int64_t>(key) != 0; };
    const auto choose = [&](const std::string& key, auto& field) {
        if (!has(key)) return;
        for (const auto& [value, name] : words_of(field))
            if (word(key) == name) field = value;
    };
    choose("norm_placement", model.norm_placement);
    choose("parallel_residual", model.parallel_residual);
    if (has("qk_norm_rows")) model.qk_norm = QkNorm::all;
    if (has("embedding_scale")) model.embedding_scale = number<double>("embedding_scale");
    if (has("embedding_norm")) model.embedding_norm = set("embedding_norm");
    if (has("head_bias")) model.head_bias = set("head_bias");
    if (has("attention_bias")) model.attention_bias = set("attention_bias");
    if (has("norm_bias")) model.norm_bias = set("norm_bias");
}

void Fixture::read_muon(OptimizerSpec& optimizer) const {
    optimizer.name = word("optimizer");
    const bool match = word("scale") == "match_rms";
    optimizer.muon = {.momentum = number<double>("momentum"),
                      .nesterov = number<std::int64_t>("nesterov") != 0,
                      .scale = match ? MuonScale::match_rms : MuonScale::original,
                      .lr_scale = number<double>("lr_scale")};
}

void Fixture::read_lora(RunSpec& spec) const {
    AdapterSpec& adapter = spec.adapter.emplace();
    adapter.rank = number<std::int64_t>("lora_rank");
    adapter.alpha = number<double>("lora_alpha");
    adapter.targets.clear();
    const std::string targets = word("lora_targets") + " ";
    for (const auto& [target, name] : words_of(LinearName{}))
        if (targets.find(text(name, " ")) != targets.npos) adapter.targets.push_back(target);
    spec.init_from = "unused";
}

void Fixture::read_prompt(RunSpec& spec) const {
    AdapterSpec& adapter = spec.adapter.emplace();
    adapter.virtual_tokens = number<std::int64_t>("virtual_tokens");
    const auto inner = number<std::int64_t>("encoder_hidden_size");
    adapter.kind = inner > 0 ? AdapterKind::p_tuning : AdapterKind::prompt;
    if (inner > 0) adapter.encoder_hidden_size = inner;
    spec.init_from = "unused";
}

void Fixture::read_experts(ModelSpec& model) const {
    const auto whole = [&](const std::string& key, std::int64_t absent) {
        return has(key) ? number<std::int64_t>(key) : absent;
    };
    ExpertsSpec& experts = model.experts.emplace();
    experts.count = whole("experts", 0);
    experts.per_token = whole("per_token", 0);
    experts.ffn_hidden_size = whole("expert_ffn", 0);
    experts.bias = whole("expert_bias", 0) != 0;
    if (has("shared_ffn"))
        experts.shared = {.ffn_hidden_size = whole("shared_ffn", 0),
                          .gate = whole("shared_gate", 0) != 0};
    experts.layers.first_dense = whole("first_dense", 0);
    experts.router = {
        .score = word("score") == "sigmoid" ? RouterScore::sigmoid : RouterScore::softmax,
        .normalize = whole("normalize", 0) != 0,
        .scale = has("scale_of_weights") ? number<double>("scale_of_weights") : 1,
        .logit_bias = whole("logit_bias", 0) != 0};
    if (has("router_groups"))
        experts.router.groups = {.count = whole("router_groups", 1),
                                 .keep = whole("router_keep", 1)};
    experts.balance = {.bias_rate = {},
                       .aux_weight = number<double>("aux_weight"),
                       .sequence_aux_weight = number<double>("sequence_aux_weight"),
                       .z_weight = number<double>("z_weight")};
    if (has("bias_rate")) experts.balance.bias_rate = number<double>("bias_rate");
}

void Fixture::read_objective(RunSpec& spec) const {
    spec.seed = static_cast<std::uint64_t>(number<std::int64_t>("seed"));
    spec.objective = MlmSpec{
        .mask_rate = number<double>("mask_rate"),
        .masking = word("masking") == "span" ? Masking::span : Masking::token,
        .mask_id = number<std::int64_t>("mask_id"),
        .mask_share = number<double>("mask_share"),
        .random_share = number<double>("random_share"),
        .geometric_p = number<double>("geometric_p"),
        .max_span = number<std::int64_t>("max_span"),
    };
}

RunSpec Fixture::spec() const {
    RunSpec spec = tiny_spec();
    ModelSpec& model = spec.model;
    const auto whole = [&](const std::string& key) { return number<std::int64_t>(key); };
    model.num_layers = whole("num_layers");
    model.hidden_size = whole("hidden_size");
    model.num_attention_heads = whole("num_attention_heads");
    model.num_query_groups = whole("num_query_groups");
    model.head_dim = whole("head_dim");
    model.ffn_hidden_size = whole("ffn_hidden_size");
    model.vocab_size = whole("vocab_size");
    model.max_position_embeddings = whole("max_position_embeddings");
    for (const auto& [embedding, name] : words_of(PositionEmbedding{}))
        if (word("position_embedding") == name) model.position_embedding = embedding;
    model.rope_theta = number<double>("rope_theta");
    const bool rms = word("normalization") == "rmsnorm";
    model.normalization = rms ? Normalization::rmsnorm : Normalization::layernorm;
    model.norm_eps = number<double>("norm_eps");
    for (const auto& [activation, name] : words_of(Activation{}))
        if (word("activation") == name) model.activation = activation;
    model.bias = whole("bias") != 0;
    model.tie_embeddings = whole("tie_embeddings") != 0;
    if (has("qk_norm")) read_variant(model);
    read_block(model);
    if (has("experts")) read_experts(model);
    if (has("optimizer")) read_muon(spec.optimizer);
    if (has("lora_rank")) read_lora(spec);
    if (has("virtual_tokens")) read_prompt(spec);
    if (has("objective")) read_objective(spec);
    spec.training.seq_length = whole("seq_length");
    spec.training.micro_batch_size = whole("micro_batch_size");
    spec.training.global_batch_size = whole("micro_batch_size");
    spec.optimizer.lr = number<double>("lr");
    spec.optimizer.betas = {number<double>("beta1"), number<double>("beta2")};
    spec.optimizer.eps = number<double>("eps");
    spec.optimizer.weight_decay = number<double>("weight_decay");
    spec.optimizer.clip_grad = number<double>("clip_grad");
    const bool cosine = word("lr_kind") == "cosine";
    spec.lr_schedule.kind = cosine ? LrKind::cosine : LrKind::constant;
    spec.lr_schedule.warmup_steps = whole("warmup_steps");
    spec.lr_schedule.decay_steps = whole("decay_steps");
    spec.lr_schedule.min_lr = number<double>("min_lr");
    return spec;
}

StepBatch Fixture::batch(std::int64_t step) const {
    Microbatch microbatch;
    microbatch.ids = values<std::int32_t>("ids");
    microbatch.targets = values<std::int32_t>("targets");
    microbatch.weights = values<float>("weights");
    const auto length = number<std::int64_t>("seq_length");
    StepBatch batch;
    for (std::size_t i = 0; i < microbatch.ids.size(); ++i) {
        microbatch.positions.push_back(
            static_cast<std::int32_t>(static_cast<std::int64_t>(i) % length));
        if (has("sliding_window")) {
            const auto window = narrow<std::int32_t>(number<std::int64_t>("sliding_window"));
            microbatch.first_in_window.push_back(
                std::max(microbatch.positions.back() + 1 - window, 0));
        }
        batch.weight_sum += microbatch.weights[i];
    }
    batch.step = step;
    batch.microbatches = {microbatch};
    return batch;
}

StepBatch Fixture::loaded_batch() const {
    const TempFolder folder;
    {
        IndexedWriter writer(folder / "a", DType::u16, true);
        writer.add_sequence(values<std::int32_t>("tokens"), values<std::uint8_t>("learned"));
        writer.end_document();
        writer.commit(TokenMeta{.tokenizer_file = "t", .program = "test"});
    }
    BatchShape shape;
    shape.seq_length = number<std::int64_t>("seq_length");
    shape.micro_batch_size = number<std::int64_t>("micro_batch_size");
    shape.vocab_size = number<std::int64_t>("vocab_size");
    const SequentialDataset source(std::make_shared<const IndexedDataset>(folder / "a"),
                                   shape.seq_length);
    return make_step_batch(source, shape, 1, 0, shape.micro_batch_size);
}

StepBatch Fixture::masked_batch() const {
    const RunPlan plan = make_plan(spec(), {});
    const SequentialDataset source(values<std::int32_t>("tokens"), "tokens", plan.seq_length,
                                   Windows::whole);
    return make_step_batch(source, batch_shape(plan, {}), 1, 0, plan.micro_batch_size);
}

/// The part of a difference, as a 2-norm, that float32 explains. PyTorch's float32 is `fp32_error`
/// away from the expected values, whose norm is `norm`. A tensor that is exactly zero (the gradient
/// of a key's bias, which softmax cancels) holds only rounding errors; for their squares, which
/// make up exp_avg_sq, the slack is squared.
double allowed_distance(double fp32_error, double norm, bool of_squares) {
    const bool noise = norm <= fp32_error;
    // The expected values themselves were rounded to float32.
    return (of_squares && noise ? slack * slack : slack) * (fp32_error + 0x1p-24 * norm);
}

void check_near(const Fixture& fixture, const std::string& group, const NamedValues& actual) {
    const NamedValues expected = fixture.group(group, actual);
    for (const auto& [name, values] : actual) {
        const std::vector<float>& right = expected.at(name);
        REQUIRE(values.size() == right.size());
        double distance = 0;
        double norm = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            const double difference = double{values[i]} - double{right[i]};
            distance += difference * difference;
            norm += double{right[i]} * double{right[i]};
        }
        norm = std::sqrt(norm);
        const double allowed =
            allowed_distance(fixture.fp32_error(group + "/" + name), norm, group.ends_with("_sq"));
        CAPTURE(group, name, norm, allowed);
        CHECK(std::sqrt(distance) <= allowed);
    }
}

}  // namespace

TEST_CASE("a model computes what PyTorch computes", "[model][torch]") {
    const Fixture fixture(GENERATE(
        "gpt2_tiny.h5", "llama_tiny.h5", "qwen_tiny.h5", "neox_tiny.h5", "learned_tiny.h5",
        "muon_gpt2_tiny.h5", "muon_llama_tiny.h5", "lora_gpt2_tiny.h5", "lora_llama_tiny.h5",
        "prompt_gpt2_tiny.h5", "prompt_llama_tiny.h5", "mlm_gpt2_tiny.h5", "mlm_llama_tiny.h5",
        "experts_tiny.h5", "experts_sigmoid_tiny.h5", "capped_tiny.h5", "alibi_tiny.h5",
        "olmo_tiny.h5", "gemma_tiny.h5", "falcon_tiny.h5", "cohere_tiny.h5"));
    TinyRun run(fixture.spec());
    run.set_weights(fixture.group("weight", run.state("weight")));

    const auto losses = fixture.values<double>("losses");
    const auto norms = fixture.values<double>("grad_norms");
    for (std::size_t i = 0; i < losses.size(); ++i) {
        const double loss = run.step(fixture.batch(static_cast<std::int64_t>(i) + 1));
        CAPTURE(i);
        CHECK(std::abs(loss - losses[i]) <=
              slack * (fixture.fp32_error("losses") + 0x1p-24 * losses[i]));
        CHECK(std::abs(run.engine().read_state().grad_norm - norms[i]) <=
              slack * (fixture.fp32_error("grad_norms") + 0x1p-24 * norms[i]));
        if (i == 0) check_near(fixture, "grad", run.gradients());
    }
    check_near(fixture, "final", run.state("weight"));
    check_near(fixture, "final_momentum_buffer", run.state("momentum_buffer"));
    check_near(fixture, "final_exp_avg", run.state("exp_avg"));
    check_near(fixture, "final_exp_avg_sq", run.state("exp_avg_sq"));
}

TEST_CASE("token files with a loss mask give PyTorch's batch", "[model][torch]") {
    const Fixture fixture("learned_tiny.h5");
    const StepBatch expected = fixture.batch(1);
    const StepBatch loaded = fixture.loaded_batch();
    REQUIRE(loaded.microbatches.size() == 1);
    CHECK(loaded.microbatches[0].ids == expected.microbatches[0].ids);
    CHECK(loaded.microbatches[0].targets == expected.microbatches[0].targets);
    CHECK(loaded.microbatches[0].weights == expected.microbatches[0].weights);
    CHECK(loaded.weight_sum == expected.weight_sum);
    CHECK(loaded.weight_sum == 14);
}

TEST_CASE("a text becomes the masked batch that PyTorch learns from", "[model][torch]") {
    const Fixture fixture(GENERATE("mlm_gpt2_tiny.h5", "mlm_llama_tiny.h5"));
    const StepBatch expected = fixture.batch(1);
    const StepBatch masked = fixture.masked_batch();
    REQUIRE(masked.microbatches.size() == 1);
    CHECK(masked.microbatches[0].ids == expected.microbatches[0].ids);
    CHECK(masked.microbatches[0].targets == expected.microbatches[0].targets);
    CHECK(masked.microbatches[0].weights == expected.microbatches[0].weights);
    CHECK(masked.weight_sum == expected.weight_sum);
}
