// Layers of experts, beyond what torch_parity.cpp compares.
#include <algorithm>
#include <limits>

#include "catch.h"
#include "spec/spec_words.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

/// The Llama whose mlp is one expert.
RunSpec one_expert_spec() {
    RunSpec spec = tiny_llama_spec();
    spec.model.experts =
        ExpertsSpec{.count = 1, .per_token = 1, .ffn_hidden_size = *spec.model.ffn_hidden_size};
    return spec;
}

bool is_of_router(const std::string& name) {
    return name.find(".router.") != name.npos;
}

/// The dense model's name of a tensor of the one expert.
std::string dense_name(std::string name) {
    const auto found = name.find(".experts.");
    return found == name.npos ? name : name.replace(found, 9, ".mlp.");
}

/// Sets all elements of the state whose name ends so.
void set_all(NamedValues& state, const std::string& end, float value) {
    for (auto& [name, values] : state)
        if (name.ends_with(end)) std::fill(values.begin(), values.end(), value);
}

NamedValues as_dense(const NamedValues& of_experts) {
    NamedValues dense;
    for (const auto& [name, values] : of_experts)
        if (!is_of_router(name)) dense[dense_name(name)] = values;
    return dense;
}

}  // namespace

TEST_CASE("a mixture of one expert is the dense model, bit for bit", "[model][experts]") {
    RunSpec mixture = one_expert_spec();
    mixture.precision.compute = GENERATE(Precision::fp32, Precision::bf16);
    const bool bias = mixture.precision.compute == Precision::bf16;
    mixture.model.bias = mixture.model.experts->bias = bias;
    mixture.recompute = GENERATE(Recompute::none, Recompute::selective, Recompute::full);
    // The gradient of the z-loss would join that of the stream.
    mixture.model.experts->balance.z_weight = 0;
    RunSpec dense = tiny_llama_spec();
    dense.model.bias = bias;
    dense.precision = mixture.precision;
    dense.recompute = mixture.recompute;
    TinyRun left(mixture);
    TinyRun right(dense);
    right.set_weights(as_dense(left.state("weight")));
    for (int step = 1; step <= 3; ++step) {
        const StepBatch batch = random_batch(right.plan(), step);
        CHECK(left.step(batch) == right.step(batch));
        CHECK(as_dense(left.gradients()) == right.gradients());
    }
    for (const char* group : {"weight", "exp_avg", "exp_avg_sq"})
        CHECK(as_dense(left.state(group)) == right.state(group));
}

TEST_CASE("all tokens in one expert train, and the others get no gradient", "[model][experts]") {
    RunSpec spec = tiny_experts_spec();
    // A bias of the choice that no score reaches.
    TinyRun run(spec);
    NamedValues weights = run.state("weight");
    for (auto& [name, values] : weights) {
        if (!name.ends_with("router.balance")) continue;
        values[2] = 10;
        values[4] = 5;
    }
    run.set_weights(weights);
    const StepBatch batch = random_batch(run.plan(), 1);
    CHECK(std::isfinite(run.step(batch)));
    const std::vector<float> gradient = run.gradients().at("h.1.experts.fc.weight");
    const std::size_t each = gradient.size() / 6;
    for (std::size_t expert = 0; expert < 6; ++expert) {
        const auto begin = gradient.begin() + static_cast<std::ptrdiff_t>(expert * each);
        const bool any = std::any_of(begin, begin + static_cast<std::ptrdiff_t>(each),
                                     [](float value) { return value != 0; });
        CHECK(any == (expert == 2 || expert == 4));
    }
    // Two experts have all tokens, a third of the experts: three times the mean load.
    const StepNumbers numbers = run.engine().numbers_at(run.engine().mark_state());
    const MeasureCounts counts = {.layers = 3, .expert_layers = 3};
    const auto number = [&](Measure which) {
        return numbers
            .measures[static_cast<std::size_t>(counts.before(static_cast<std::size_t>(which)) + 1)];
    };
    CHECK(number(Measure::expert_load).mean() == 3);
    CHECK(number(Measure::expert_load).weight == 1);
    CHECK(number(Measure::unused_experts).mean() == 4);
    CHECK(number(Measure::router_entropy).weight == batch.weight_sum);
    CHECK(number(Measure::router_loss).weight == batch.weight_sum);
    // Their biases fall, and the others' rise.
    const std::vector<float> balance = run.state("weight").at("h.1.router.balance");
    const double expected[] = {0.01, 0.01, 10 - 0.01, 0.01, 5 - 0.01, 0.01};
    for (std::size_t expert = 0; expert < 6; ++expert)
        CHECK(double{balance[expert]} == Approx(expected[expert]));
}

TEST_CASE("tokens of weight 0 change nothing for the others", "[model][experts]") {
    RunSpec spec = tiny_shared_experts_spec();
    spec.training.micro_batch_size = 4;
    TinyRun left(spec);
    TinyRun right(spec);
    StepBatch batch = random_batch(left.plan(), 1);
    Microbatch& tokens = batch.microbatches.front();
    // The last sequence is padding.
    const auto length = static_cast<std::ptrdiff_t>(left.plan().seq_length);
    std::fill(tokens.weights.end() - length, tokens.weights.end(), 0.0f);
    batch.weight_sum = 0;
    for (const float weight : tokens.weights)
        batch.weight_sum += weight;
    StepBatch other = batch;
    std::fill(other.microbatches.front().ids.end() - length, other.microbatches.front().ids.end(),
              5);
    for (int step = 1; step <= 2; ++step)
        CHECK(left.step(batch) == right.step(other));
    // Rows of tokens without a part in the loss have gradients of zero, in sums too.
    CHECK(left.state("weight") == right.state("weight"));
}

TEST_CASE("NaN in a router skips the step", "[model][experts]") {
    TinyRun run(tiny_experts_spec());
    NamedValues weights = run.state("weight");
    weights.at("h.1.router.weight")[7] = std::numeric_limits<float>::quiet_NaN();
    run.set_weights(weights);
    run.step(random_batch(run.plan(), 1));
    CHECK(run.engine().read_state().skip == Skip::not_finite);
    const NamedValues after = run.state("weight");
    CHECK(after.at("h.1.experts.fc.weight") == weights.at("h.1.experts.fc.weight"));
    CHECK(after.at("h.1.router.balance") == weights.at("h.1.router.balance"));
}

TEST_CASE("equal logits choose the experts with the lowest indices", "[model][experts]") {
    RunSpec spec = tiny_experts_spec();
    TinyRun run(spec);
    NamedValues weights = run.state("weight");
    set_all(weights, "router.weight", 0);
    run.set_weights(weights);
    run.step(random_batch(run.plan(), 1));
    const std::vector<float> gradient = run.gradients().at("h.0.experts.proj.weight");
    const std::size_t each = gradient.size() / 6;
    const auto used = [&](std::size_t expert) {
        const auto begin = gradient.begin() + static_cast<std::ptrdiff_t>(expert * each);
        return std::any_of(begin, begin + static_cast<std::ptrdiff_t>(each),
                           [](float value) { return value != 0; });
    };
    CHECK(used(0));
    CHECK(used(1));
    for (std::size_t expert = 2; expert < 6; ++expert)
        CHECK_FALSE(used(expert));
}

TEST_CASE("the bias of a frozen router stays", "[model][experts]") {
    RunSpec spec = tiny_experts_spec();
    spec.training.frozen = {"h.*.router.weight", "h.*.router.bias"};
    TinyRun run(spec);
    run.step(random_batch(run.plan(), 1));
    CHECK(run.state("weight").at("h.0.router.balance") == std::vector<float>(6));
}
