// Plans of models with layers of two kinds.
#include "planned_spec.h"
#include "spec/layer_split.h"
#include "spec/model_cost.h"

namespace gptrain::test {
namespace {

using Layers = std::vector<std::int64_t>;

/// Settings of a model of `layers` layers with 8 experts, of which a token uses 2.
std::vector<std::string> experts(std::int64_t layers, const std::vector<std::string>& more) {
    std::vector<std::string> settings = {
        text("model.num_layers=", layers),
        "model.experts={count: 8, per_token: 2, ffn_hidden_size: 256}"};
    settings.insert(settings.end(), more.begin(), more.end());
    return settings;
}

Layers split(std::int64_t layers, std::int64_t chunks, const std::vector<std::string>& more) {
    std::vector<std::string> settings = experts(layers, more);
    settings.push_back(text("parallel.pipeline=", chunks));
    return plan_of(settings, {.world_size = chunks}).chunk_layers;
}

}  // namespace

TEST_CASE("a model has one or two kinds of layers") {
    const auto kinds = [](const std::vector<std::string>& more) {
        return layer_kinds(plan_of(experts(6, more)).model);
    };
    const auto all = kinds({});
    REQUIRE(all.size() == 1);
    CHECK(all[0].experts);
    CHECK(all[0].first == 0);
    CHECK(all[0].share == 1);
    const auto some = kinds({"model.experts.layers=[1, 2, 5]"});
    REQUIRE(some.size() == 2);
    CHECK_FALSE(some[0].experts);
    CHECK(some[0].first == 0);
    CHECK(some[0].share == 0.5);
    CHECK(some[1].experts);
    CHECK(some[1].first == 1);
    const auto dense = kinds({"model.experts=none"});
    REQUIRE(dense.size() == 1);
    CHECK_FALSE(dense[0].experts);
}

TEST_CASE("a layer's work is that of its kind") {
    const ModelShape model = plan_of(experts(4, {"model.experts.layers.first_dense=1"})).model;
    const auto kinds = layer_kinds(model);
    REQUIRE(kinds.size() == 2);
    const double dense = layer_flops(model, kinds[0], 1024);
    const double sparse = layer_flops(model, kinds[1], 1024);
    // Two experts as wide as the mlp, which has biases, and the router.
    CHECK(sparse - dense == 6.0 * (2 * 256 * 64 - 256 - 64 + 8 * 64));
    const double head = 6.0 * 512 * 64;
    CHECK(head_cost(model, 1024) == Approx(head / (dense / 4 + 3 * sparse / 4)));
    ModelShape alike = model;
    alike.experts->layers = {};
    CHECK(head_cost(alike, 1024) == head / sparse);
    const auto parameters = layer_parameters(plan_of(experts(4, {"model.experts.layers=[2]"})));
    REQUIRE(parameters.size() == 4);
    CHECK(parameters[0].all == parameters[3].all);
    CHECK(parameters[2].all - parameters[0].all == (8 - 1) * 2 * 256 * 64 - 256 - 64 + 8 * 64);
    CHECK(parameters[2].active - parameters[0].active == 2 * 256 * 64 - 256 - 64 + 8 * 64);
}

TEST_CASE("stages of layers of two kinds have about equal work") {
    const std::string small_head = "model.vocab_size=2";
    // With 8 of 8 experts a layer has much more work than a dense one.
    const std::string heavy = "model.experts.per_token=8";
    CHECK(split(8, 2, {heavy, small_head, "model.experts.layers=[0, 1]"}) == Layers{2, 6});
    CHECK(split(8, 2, {heavy, small_head, "model.experts.layers=[6, 7]"}) == Layers{6, 2});
    CHECK(split(8, 2, {small_head}) == Layers{4, 4});
    CHECK(split(3, 3, {heavy, "model.experts.layers=[2]"}) == Layers{1, 1, 1});
    // A head as large as many layers.
    const Layers with_head =
        split(8, 2, {"model.vocab_size=65536", "model.experts.layers={every: 2}"});
    CHECK(with_head == Layers{7, 1});
    CHECK(split(4, 2, {"parallel.layers=[3, 1]", "model.experts.layers=[0]"}) == Layers{3, 1});
}

TEST_CASE("no other cut of layers has less work on its busiest stage") {
    const ModelShape model =
        plan_of(experts(9, {"model.experts.layers=[1, 3, 4, 8]", "model.experts.per_token=4"}))
            .model;
    const auto kinds = layer_kinds(model);
    const double head = 6.0 * 512 * 64;
    const auto most = [&](const Layers& layers) {
        double busiest = 0;
        std::int64_t next = 0;
        for (std::size_t chunk = 0; chunk < layers.size(); ++chunk) {
            double work = chunk + 1 == layers.size() ? head : 0;
            for (std::int64_t i = 0; i < layers[chunk]; ++i)
                work += layer_flops(model, kinds[model.has_experts(next++) ? 1 : 0], 1024);
            busiest = std::max(busiest, work);
        }
        CHECK(next == 9);
        return busiest;
    };
    double least = 1e300;
    for (std::int64_t a = 1; a <= 7; ++a)
        for (std::int64_t b = 1; a + b <= 8; ++b)
            least = std::min(least, most({a, b, 9 - a - b}));
    CHECK(most(split_by_work(model, 1024, 3)) == Approx(least));
}

TEST_CASE("the width of layers without experts matters only where there are some") {
    const auto message = [](const std::string& layers) {
        return contradiction(experts(2, {"model.ffn_hidden_size=33", "parallel.tensor=2", layers}),
                             {.world_size = 2});
    };
    CHECK(message("model.experts.layers=all") == "(accepted)");
    CHECK(holds(message("model.experts.layers=[1]"), "model.ffn_hidden_size 33 is not a multiple"));
}

TEST_CASE("the plan in words says what a token uses") {
    const auto words = [](const std::vector<std::string>& more) {
        return describe(plan_of(experts(2, more)));
    };
    const std::string plain = words({});
    INFO(plain);
    CHECK(holds(plain, "4 heads of 16, vocabulary 512"));
    CHECK(holds(plain,
                "experts        2 of 8 for each token, of ffn 256, in 2 layers; 264,320 "
                "parameters are active\n"));
    CHECK(holds(plain,
                "               router softmax, normalized, bias moves by 0.001, balance "
                "loss of a sequence 1e-04, z-loss 1e-04\n"));
    const std::string some = words(
        {"model.experts.layers=[1]", "model.experts.shared={ffn_hidden_size: 8, gate: true}",
         "model.experts.router={score: sigmoid, normalize: false, scale: 2.5, groups: {count: 4, "
         "keep: 2}}",
         "model.experts.balance={bias_rate: none, aux_weight: 0.01, sequence_aux_weight: 0, "
         "z_weight: 0}"});
    INFO(some);
    CHECK(holds(some, "4 heads of 16, ffn 256, vocabulary 512"));
    CHECK(holds(some, "of ffn 256, and a shared one with a gate of ffn 8, in 1 of 2 layers; "));
    CHECK(holds(some, "router sigmoid, 2 of 4 groups x 2.5, balance loss 0.01\n"));
    CHECK_FALSE(holds(words({"model.experts=none"}), "experts"));
}

}  // namespace gptrain::test
