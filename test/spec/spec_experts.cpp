// model.experts: its forms, its contradictions, and the numbers of models that have it.
#include "planned_spec.h"
#include "spec/model_cost.h"
#include "spec/parallel_plan.h"
#include "spec/spec_json.h"
#include "spec/spec_settings.h"

namespace gptrain::test {
namespace {

const std::string small = "model.experts={count: 8, per_token: 2, ffn_hidden_size: 32}";

/// The settings that follow a small section.
std::vector<std::string> with(std::vector<std::string> settings) {
    settings.insert(settings.begin(), small);
    return settings;
}

std::string experts_mistake(const std::string& setting) {
    return usage_fault([&] { minimal(with({setting})); });
}

std::vector<std::int64_t> layers_of(const std::string& layers, std::int64_t count) {
    const RunSpec spec = minimal(with({"model.experts.layers=" + layers}));
    std::vector<std::int64_t> with_experts;
    for (std::int64_t layer = 0; layer < count; ++layer)
        if (spec.model.has_experts(layer)) with_experts.push_back(layer);
    return with_experts;
}

void check_reads_back(const RunSpec& spec) {
    CHECK(parse_run_spec(to_yaml(spec), "written.yaml") == spec);
    CHECK(parse_run_spec(to_line(to_json(spec)), "written.json") == spec);
}

std::string written(const std::string& key, const std::vector<std::string>& settings) {
    return yaml_line(to_json(minimal(with(settings)))["model"]["experts"][key]);
}

}  // namespace

TEST_CASE("experts have defaults for all but their sizes") {
    const ExpertsSpec experts = *minimal({small}).model.experts;
    CHECK(experts == ExpertsSpec{.count = 8, .per_token = 2, .ffn_hidden_size = 32});
    CHECK(written("shared", {}) == "none");
    CHECK(written("layers", {}) == "all");
    CHECK(written("router", {}) ==
          "{score: softmax, normalize: true, scale: 1, logit_bias: false, groups: none}");
    CHECK(written("balance", {}) ==
          "{bias_rate: 0.001, aux_weight: 0, sequence_aux_weight: 1.0e-04, z_weight: 1.0e-04}");
    CHECK_FALSE(minimal({small, "model.experts=none"}).model.experts);
    CHECK_FALSE(minimal().model.experts);
    CHECK(experts_mistake("model.experts={count: 8, per_token: 2}") ==
          "--set model.experts.ffn_hidden_size: missing key");
    CHECK(experts_mistake("model.experts=8") ==
          "--set model.experts: found 8, must be none or a section of `key: value`");
    CHECK(experts_mistake("model.experts.shared={gate: true}") ==
          "--set model.experts.shared.ffn_hidden_size: missing key");
    CHECK(experts_mistake("model.experts.router={top_k: 2}")
              .starts_with("--set model.experts.router.top_k: unknown key; "));
}

TEST_CASE("the word none takes a default away") {
    CHECK(minimal({small}).model.experts->balance.bias_rate == 1.0e-3);
    const RunSpec without = minimal(with({"model.experts.balance.bias_rate=none"}));
    CHECK_FALSE(without.model.experts->balance.bias_rate);
    CHECK(written("balance", {"model.experts.balance={bias_rate: none}"}) ==
          "{bias_rate: none, aux_weight: 0, sequence_aux_weight: 1.0e-04, z_weight: 1.0e-04}");
    check_reads_back(without);
    CHECK(minimal(with({"model.experts.balance.bias_rate=0"})).model.experts->balance.bias_rate ==
          0.0);
}

TEST_CASE("layers with experts are named in three ways") {
    using Layers = std::vector<std::int64_t>;
    CHECK(layers_of("all", 3) == Layers{0, 1, 2});
    CHECK(layers_of("{first_dense: 2}", 4) == Layers{2, 3});
    CHECK(layers_of("{every: 2}", 5) == Layers{1, 3});
    CHECK(layers_of("{first_dense: 2, every: 2}", 6) == Layers{3, 5});
    CHECK(layers_of("[1, 4]", 6) == Layers{1, 4});
    CHECK(written("layers", {"model.experts.layers={every: 2}"}) == "{first_dense: 0, every: 2}");
    CHECK(written("layers", {"model.experts.layers={first_dense: 0}"}) == "all");
    CHECK(written("layers", {"model.experts.layers=[0, 1]"}) == "[0, 1]");
    CHECK(written("layers", {"model.experts.layers=all", "model.experts.layers.every=3"}) ==
          "{first_dense: 0, every: 3}");
    CHECK(experts_mistake("model.experts.layers=some") ==
          "--set model.experts.layers: found some, must be all, a section of `key: value` or a "
          "list");
    CHECK(
        experts_mistake("model.experts.layers=[]")
            .starts_with("--set model.experts.layers: found a list of 0, must be a list of 1 to "));
    CHECK(experts_mistake("model.experts.layers={every: 0}")
              .starts_with("--set model.experts.layers.every: found 0"));
}

TEST_CASE("the range of each key of experts ends where it must") {
    for (const std::string setting : {"count=0",
                                      "count=1537",
                                      "per_token=0",
                                      "ffn_hidden_size=0",
                                      "ffn_hidden_size=4194305",
                                      "shared={ffn_hidden_size: 0}",
                                      "layers={first_dense: -1}",
                                      "layers=[-1]",
                                      "router.score=relu",
                                      "router.scale=0",
                                      "router.groups={count: 0, keep: 1}",
                                      "router.groups={count: 2, keep: 0}",
                                      "router.groups={count: 2}",
                                      "balance.bias_rate=-1",
                                      "balance.bias_rate=auto",
                                      "balance.aux_weight=-1",
                                      "balance.sequence_aux_weight=-1",
                                      "balance.z_weight=-1",
                                      "upcycling_noise=-1",
                                      "load=0.99"}) {
        CAPTURE(setting);
        CHECK(experts_mistake(text("model.experts.", setting)).starts_with("--set model.experts."));
    }
    for (const std::string setting :
         {"count=1536", "per_token=1", "ffn_hidden_size=1", "shared=none", "router.groups=none",
          "load=1", "balance={bias_rate: 0, sequence_aux_weight: 0, z_weight: 0}"}) {
        CAPTURE(setting);
        CHECK_NOTHROW(minimal(with({text("model.experts.", setting)})));
    }
}

TEST_CASE("specs with experts read back as themselves") {
    RunSpec spec = minimal();
    spec.model.experts = ExpertsSpec{
        .count = 12,
        .per_token = 3,
        .ffn_hidden_size = 7,
        .bias = true,
        .shared = SharedExpertSpec{9, true},
        .layers = {.first_dense = 3, .every = 2},
        .load = 1.75,
        .router = {RouterScore::sigmoid, false, 0.1 + 0.2, true, RouterGroupsSpec{4, 2}},
        .balance = {{}, 0.5, 0.25, 1e-9}};
    check_reads_back(spec);
    spec.model.experts->layers = {.list = {0, 5}};
    spec.model.experts->balance.bias_rate = 1.0 / 3;
    check_reads_back(spec);
    check_reads_back(minimal({small}));
    // Written over another section, key by key.
    const RunSpec plain = minimal();
    const std::vector<std::string> changes = changed_keys(plain, spec);
    REQUIRE(changes.size() == 1);
    CHECK(minimal(changes) == spec);
    CHECK(changed_keys(spec, plain) == std::vector<std::string>{"model.experts=none"});
    const RunSpec planned = effective_spec(minimal({small}), plan_of({small}));
    check_reads_back(planned);
    CHECK(planned.model.experts == minimal({small}).model.experts);
}

TEST_CASE("keys of experts that contradict each other are named") {
    const auto message = [](const std::string& setting, std::vector<std::string> more = {}) {
        more.push_back("model.experts." + setting);
        return contradiction(with(more));
    };
    CHECK(message("per_token=9") ==
          "model.experts.per_token 9 is above model.experts.count 8; lower it");
    CHECK(message("per_token=8") == "(accepted)");
    CHECK(message("per_token=1") ==
          "model.experts.router.normalize: true gives the router no gradient with "
          "model.experts.per_token 1; set it to false or raise per_token");
    CHECK(message("per_token=1", {"model.experts.router.normalize=false"}) == "(accepted)");
    CHECK(message("per_token=1", {"model.experts.count=1"}) == "(accepted)");
    CHECK(message("router.groups={count: 3, keep: 1}") ==
          "model.experts.count 8 is not a multiple of 3, model.experts.router.groups.count; set "
          "model.experts.count to 6 or 9, or change the latter");
    CHECK(message("router.groups={count: 2, keep: 3}") ==
          "model.experts.router.groups.keep 3 is above model.experts.router.groups.count 2; lower "
          "it");
    CHECK(message("router.groups={count: 8, keep: 1}") ==
          "model.experts.per_token 2 is above the 1 experts of the groups that "
          "model.experts.router.groups.keep 1 keeps; lower it or raise keep");
    CHECK(message("router.groups={count: 4, keep: 1}") == "(accepted)");
    CHECK(message("layers=[0, 2]") ==
          "model.experts.layers: there is no layer 2 in a model with model.num_layers 2; layers "
          "count from 0");
    CHECK(message("layers=[1, 0]") ==
          "model.experts.layers: 0 follows 1; list layers in ascending order");
    CHECK(holds(message("layers=[1, 1]"), "model.experts.layers: 1 follows 1"));
    CHECK(message("layers=[1]") == "(accepted)");
    CHECK(message("layers.first_dense=2") ==
          "model.experts.layers leaves all of model.num_layers 2 without experts; lower "
          "first_dense or every, or set model.experts to none");
    CHECK(holds(message("layers.every=3"), "model.experts.layers leaves all of"));
}

TEST_CASE("keys that cannot be used with experts are named") {
    const auto message = [](const std::vector<std::string>& settings) {
        return contradiction(with(settings));
    };
    CHECK(message({"precision.compute=fp8"}) ==
          "precision.compute: fp8 cannot be used with model.experts, whose matrices are multiplied "
          "in 16 bits; set it to bf16");
    CHECK(message({"precision.compute=bf16"}) == "(accepted)");
    CHECK(message({"precision.frozen=int8"}) == "(accepted)");
    const std::string lora = "adapter={kind: lora, targets: [attn.q, mlp.fc]}";
    CHECK(message({"init_from=/model", lora}) ==
          "adapter.targets: the model has no mlp.fc, because all its layers have experts "
          "(model.experts), which take no adapter; remove it");
    CHECK(message({"init_from=/model", lora, "model.experts.layers=[1]"}) == "(accepted)");
    CHECK(message({"init_from=/model", "adapter.kind=lora"}) == "(accepted)");
    CHECK(message({"init_from=/model", "adapter.kind=prompt"}) == "(accepted)");
    CHECK(message({"objective=mlm", "objective.mask_id=3"}) == "(accepted)");
    CHECK(message({"model.activation=swiglu"}) == "(accepted)");
}

TEST_CASE("ranks of tp share the width of every expert") {
    const PlanTarget two = {.world_size = 2};
    const std::vector<std::string> settings =
        with({"parallel.tensor=2", "model.experts.shared={ffn_hidden_size: 6}"});
    const RunPlan plan = plan_of(settings, two);
    CHECK(plan.model.experts->ffn_hidden_size == 32);
    CHECK(plan.local.experts->ffn_hidden_size == 16);
    CHECK(plan.local.experts->shared->ffn_hidden_size == 3);
    CHECK(plan.local.experts->count == 8);
    const auto message = [&](const std::string& setting) {
        std::vector<std::string> all = settings;
        all.push_back("model.experts." + setting);
        return contradiction(all, two);
    };
    CHECK(message("ffn_hidden_size=33") ==
          "model.experts.ffn_hidden_size 33 is not a multiple of 2, parallel.tensor; set "
          "model.experts.ffn_hidden_size to 32 or 34, or change the latter");
    CHECK(holds(message("shared.ffn_hidden_size=7"),
                "model.experts.shared.ffn_hidden_size 7 is not a multiple of 2, parallel.tensor"));
}

TEST_CASE("ranks that divide the experts have them whole") {
    const PlanTarget four = {.world_size = 4};
    const std::vector<std::string> settings =
        with({"parallel.tensor=2", "parallel.sequence_parallel=true", "parallel.expert=4",
              "model.experts.ffn_hidden_size=33", "model.experts.shared={ffn_hidden_size: 6}"});
    const RunPlan plan = plan_of(settings, four);
    CHECK(plan.mesh.data == 2);
    CHECK(plan.mesh.expert == 4);
    CHECK(plan.local.experts->ffn_hidden_size == 33);
    CHECK(plan.local.experts->shared->ffn_hidden_size == 3);
    CHECK(plan.local.experts->count == 8);
    CHECK(holds(describe(plan), "= 4 ranks, of which 4 divide the experts\n"));
    CHECK_FALSE(holds(describe(plan_of(with({}), four)), "divide the experts"));
    // The fewest ranks include the copies that the axis spans.
    CHECK(min_ranks(minimal(settings).parallel) == 4);
    CHECK(min_ranks(minimal(with({"parallel.context=4", "parallel.expert=2"})).parallel) == 4);
}

TEST_CASE("keys that contradict parallel.expert are named") {
    const auto message = [](std::int64_t ranks, std::vector<std::string> settings) {
        settings.insert(settings.begin(), small);
        return contradiction(settings, {.world_size = ranks});
    };
    const std::string sequence = "parallel.sequence_parallel=true";
    CHECK(contradiction({"parallel.expert=2"}, {.world_size = 2}) ==
          "parallel.expert 2 divides experts, but model.experts is none; set that, or "
          "parallel.expert to 1");
    CHECK(contradiction({"parallel.expert=1"}) == "(accepted)");
    CHECK(message(3, {"parallel.expert=3"}) ==
          "model.experts.count 8 is not a multiple of 3, parallel.expert; set "
          "model.experts.count to 6 or 9, or change the latter");
    CHECK(message(2, {"parallel.expert=2", "parallel.tensor=2"}) ==
          "parallel.expert 2 with parallel.tensor 2 needs parallel.sequence_parallel: true, with "
          "which ranks of tensor have different tokens; set it, or parallel.expert or "
          "parallel.tensor to 1");
    CHECK(message(2, {"parallel.expert=2", "parallel.tensor=2", sequence}) == "(accepted)");
    CHECK(message(2, {"parallel.expert=4"}) ==
          "parallel.expert 4 does not divide parallel.data x context x tensor = 2, the ranks with "
          "tokens of a layer; set it to a divisor, or change the mesh");
    // Stages do not share experts.
    CHECK(holds(message(4, {"parallel.expert=4", "parallel.pipeline=2"}),
                "parallel.expert 4 does not divide parallel.data x context x tensor = 2"));
    const std::string many = "model.experts.count=24";
    CHECK(message(12, {many, "parallel.expert=3", "parallel.tensor=4", sequence}) ==
          "parallel.expert 3 takes neighbours, ranks of tensor first, then of context, then of "
          "data, but neither divides parallel.tensor = 4 nor is a multiple of it; change one of "
          "them");
    CHECK(holds(message(12, {many, "parallel.expert=6", "parallel.context=4"}),
                "but neither divides parallel.context x tensor = 4 nor is a multiple of it"));
    for (const std::int64_t expert : {2, 4, 8}) {
        CAPTURE(expert);
        CHECK(message(8, {text("parallel.expert=", expert), "parallel.tensor=2",
                          "parallel.context=2", sequence}) == "(accepted)");
    }
}

TEST_CASE("data ranks that divide the experts have equally many microbatches") {
    const auto counts = [](std::int64_t expert) {
        const RunPlan plan = plan_of(with({text("parallel.expert=", expert), "parallel.context=2",
                                           "training.global_batch_size=6"}),
                                     {.world_size = 8});
        std::vector<std::int64_t> all;
        for (std::int64_t rank = 0; rank < 4; ++rank)
            all.push_back(plan.microbatches(6, rank));
        CHECK(holds(describe(plan), "2 x 1 on each data rank") == (expert > 2));
        return all;
    };
    using Counts = std::vector<std::int64_t>;
    CHECK(counts(2) == Counts{2, 2, 1, 1});
    CHECK(counts(4) == Counts{2, 2, 2, 2});
    CHECK(counts(8) == Counts{2, 2, 2, 2});
}

namespace {

/// Llama's kind of model with experts.
ModelShape mixture(ModelShape model, const ExpertsSpec& experts) {
    model.position_embedding = PositionEmbedding::rope;
    model.normalization = Normalization::rmsnorm;
    model.activation = Activation::swiglu;
    model.bias = model.qkv_bias = model.attention_bias = model.tie_embeddings = false;
    model.experts = experts;
    return model;
}

}  // namespace

TEST_CASE("parameter counts of published models with experts") {
    ModelShape qwen = mixture({{}, 48, 2048, 32, 4, 128, 6144, 151936, 32768},
                              {.count = 128, .per_token = 8, .ffn_hidden_size = 768});
    qwen.qk_norm = QkNorm::head;
    CHECK(parameter_count(qwen) == 30'532'122'624);  // Qwen3 30B-A3B
    const std::int64_t table = qwen.vocab * qwen.hidden;
    CHECK(active_parameters(qwen) - table == 3'041'867'776);
    const ModelShape mixtral = mixture({{}, 32, 4096, 32, 8, 128, 14336, 32000, 32768},
                                       {.count = 8, .per_token = 2, .ffn_hidden_size = 14336});
    CHECK(parameter_count(mixtral) == 46'702'792'704);  // Mixtral 8x7B
    CHECK(active_parameters(mixtral) == 12'879'925'248);
    // Without experts all parameters are active.
    ModelShape dense = qwen;
    dense.experts.reset();
    CHECK(active_parameters(dense) == parameter_count(dense));
}

TEST_CASE("every part of a layer with experts is counted") {
    const auto count = [](const std::string& key) {
        std::vector<std::string> settings = {small};
        if (!key.empty()) settings.push_back("model.experts." + key);
        return parameter_count(plan_of(settings).model);
    };
    const auto dense = parameter_count(plan_of({"model.bias=true"}).model);
    const std::int64_t h = 64, f = 32, mlp = 2 * 4 * h * h + 4 * h + h;
    const std::int64_t layer = 8 * 2 * f * h + 8 * h;
    CHECK(count("") == dense + 2 * (layer - mlp));
    CHECK(count("layers=[1]") == dense + layer - mlp);
    CHECK(count("router.logit_bias=true") == count("") + 2 * 8);
    CHECK(count("shared={ffn_hidden_size: 5}") == count("") + 2 * 2 * 5 * h);
    CHECK(count("shared={ffn_hidden_size: 5, gate: true}") == count("") + 2 * (2 * 5 * h + h));
    // The bias of the choice is no parameter.
    CHECK(count("balance.bias_rate=none") == count(""));
    const auto swiglu = [](const std::vector<std::string>& more) {
        std::vector<std::string> settings = with({"model.activation=swiglu"});
        settings.insert(settings.end(), more.begin(), more.end());
        return parameter_count(plan_of(settings).model);
    };
    CHECK(swiglu({}) == count("") + 2 * 8 * f * h);
    // Biases of fc, gate and proj.
    CHECK(count("bias=true") == count("") + 2 * 8 * (f + h));
    CHECK(swiglu({"model.experts.bias=true"}) == swiglu({}) + 2 * 8 * (2 * f + h));
}

TEST_CASE("the work of a token is that of its experts") {
    const auto flops = [](std::vector<std::string> settings) {
        return flops_per_token(plan_of(with(std::move(settings))));
    };
    // One more expert of a token, 2 matrices [32, 64] in each of 2 layers.
    CHECK(flops({"model.experts.per_token=3"}) - flops({}) == 6.0 * 2 * 2 * 32 * 64);
    // More experts to choose from only have more logits.
    CHECK(flops({"model.experts.count=16"}) - flops({}) == 6.0 * 2 * 8 * 64);
    CHECK(flops({"model.experts.balance.bias_rate=none"}) == flops({}));
}

}  // namespace gptrain::test
