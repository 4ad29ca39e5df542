// Settings that must not change the results: recomputation, schedules, microbatches.
#include <cmath>
#include <limits>
#include <utility>

#include "catch.h"
#include "spec/model_cost.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

struct Result {
    std::vector<double> losses;
    NamedValues gradients;
    NamedValues weights;
};

Result train_steps(const RunSpec& spec, int steps) {
    TinyRun run(spec);
    Result result;
    for (int step = 1; step <= steps; ++step) {
        result.losses.push_back(run.step(random_batch(run.plan(), step)));
    }
    result.gradients = run.gradients();
    result.weights = run.state("weight");
    return result;
}

void check_equal_bits(const Result& a, const Result& b) {
    CHECK(a.losses == b.losses);
    CHECK(a.gradients == b.gradients);
    CHECK(a.weights == b.weights);
}

/// For sums in another order: a few roundings of `eps` each, relative to the whole tensor.
void check_close(const NamedValues& a, const NamedValues& b, double eps) {
    for (const auto& [name, values] : a) {
        const std::vector<float>& other = b.at(name);
        double distance = 0;
        double norm = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            distance += std::pow(double{values[i]} - double{other[i]}, 2);
            norm += std::pow(double{values[i]}, 2);
        }
        CAPTURE(name, norm);
        CHECK(std::sqrt(distance) <= 100 * eps * (std::sqrt(norm) + 1e-3));
    }
}

RunSpec variant(int index) {
    if (index == 4) return tiny_qwen_spec();
    if (index == 5) return tiny_neox_spec();
    if (index == 8) return tiny_experts_spec();
    if (index == 9) return tiny_shared_experts_spec();
    if (index == 14) {
        RunSpec spec = tiny_shared_experts_spec();
        spec.model.parallel_residual = ParallelResidual::two_norms;
        return spec;
    }
    if (index == 15) {
        RunSpec spec = tiny_experts_spec();
        spec.model.norm_placement = NormPlacement::both;
        return spec;
    }
    RunSpec spec = index == 10      ? tiny_olmo_spec()
                   : index == 11    ? tiny_gemma_spec()
                   : index == 12    ? tiny_falcon_spec()
                   : index == 13    ? tiny_cohere_spec()
                   : index % 2 == 0 ? tiny_spec()
                                    : tiny_llama_spec();
    if (index >= 2) spec.model.dropout = 0.2;
    if (index == 6 || index == 7) spec.objective = MlmSpec{.mask_id = 1};
    return spec;
}

RunSpec with_adapter(int index) {
    using enum AdapterKind;
    switch (index) {
        case 0: return with_lora(tiny_spec());
        case 1: return with_lora(tiny_llama_spec(), false);
        case 2: return with_virtual_tokens(tiny_spec(), prompt);
        default: return with_virtual_tokens(tiny_llama_spec(), p_tuning);
    }
}

/// A step's loss and gradients, after every element of the gradients was set to `before`.
std::pair<double, NamedValues> step_after(const RunSpec& spec, float before, bool overwrites) {
    TinyRun run(
        spec, tested_backend(), 1, [](const RunPlan&, Backend&) { return one_rank_mesh(); },
        [&](RunPlan& plan) { plan.overwrites_gradients = overwrites; });
    run.engine().visit_gradients([&](const NamedState& gradient) {
        run.backend().run(Fill{.x = gradient.values, .value = before});
    });
    const double loss = run.step(random_batch(run.plan(), 1));
    return {loss, run.gradients()};
}

}  // namespace

TEST_CASE("recomputation does not change a bit", "[model]") {
    RunSpec spec = variant(GENERATE(range(0, 16)));
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16, Precision::fp16);
    spec.recompute = Recompute::none;
    const Result none = train_steps(spec, 2);
    REQUIRE(std::isfinite(none.losses.back()));
    spec.recompute = Recompute::selective;
    check_equal_bits(none, train_steps(spec, 2));
    spec.recompute = Recompute::full;
    check_equal_bits(none, train_steps(spec, 2));
}

TEST_CASE("state and activations in host memory do not change a bit", "[model]") {
    RunSpec spec = variant(GENERATE(0, 9, 11, 12));
    spec.model.num_layers = 3;
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16);
    spec.optimizer.name = GENERATE("adamw", "muon");
    spec.optimizer.state =
        GENERATE(MomentFormat::fp32, MomentFormat::bf16, MomentFormat::eight_bit);
    const bool small = spec.optimizer.state != MomentFormat::fp32;
    if (small && spec.optimizer.name == "muon") return;
    spec.recompute = Recompute::full;
    const Result resident = train_steps(spec, 3);
    REQUIRE(std::isfinite(resident.losses.back()));
    spec.offload = {
        .optimizer = true, .main_weights = true, .activations = OffloadedActivations::blocks};
    check_equal_bits(resident, train_steps(spec, 3));
    const bool moments = spec.optimizer.name == "adamw";
    spec.offload = {.optimizer = moments, .main_weights = !moments};
    spec.recompute = Recompute::selective;
    check_equal_bits(resident, train_steps(spec, 3));
}

TEST_CASE("a backward in two parts is the backward", "[model]") {
    RunSpec spec = variant(GENERATE(0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15));
    spec.recompute = GENERATE(Recompute::none, Recompute::selective, Recompute::full);
    // cuBLASLt sums a bias gradient together with the weight's in another order than W does.
    const bool bits = tested_backend()->is_host();
    const int steps = bits ? 2 : 1;
    const Result whole = train_steps(spec, steps);
    spec.parallel.schedule = ScheduleKind::zero_bubble;
    const Result parts = train_steps(spec, steps);
    if (bits) return check_equal_bits(whole, parts);
    CHECK(parts.losses == whole.losses);
    check_close(whole.gradients, parts.gradients, 0x1p-24);
}

TEST_CASE("a step overwrites what it does not clear of the gradients", "[model]") {
    const int index = GENERATE(0, 1, 8, 9, 10, 12, 13);
    using enum ScheduleKind;
    const auto [precision, schedule, micro_batch] =
        GENERATE(table<Precision, ScheduleKind, int>({{Precision::fp32, one_f_one_b, 4},
                                                      {Precision::fp32, zero_bubble, 1},
                                                      {Precision::bf16, gpipe, 2},
                                                      {Precision::fp16, one_f_one_b, 1},
                                                      {Precision::fp8, zero_bubble, 2}}));
    RunSpec spec = index < 10 ? variant(index) : with_adapter(index - 10);
    spec.precision.compute = precision;
    spec.parallel.schedule = schedule;
    spec.training.micro_batch_size = micro_batch;
    if (precision == Precision::fp8) spec.model.ffn_hidden_size = 64;
    if (precision == Precision::fp8 && spec.model.experts) return;  // refused
    CAPTURE(index, precision, schedule, micro_batch);
    const auto overwritten = step_after(spec, 0, true);
    CHECK(step_after(spec, std::numeric_limits<float>::quiet_NaN(), true) == overwritten);
    const auto added = step_after(spec, 0, false);
    CHECK(added.first == overwritten.first);
    check_close(added.second, overwritten.second, 0x1p-24);
}

TEST_CASE("microbatches and their order change roundings only", "[model]") {
    RunSpec spec = variant(GENERATE(0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    const Result base = train_steps(spec, 1);
    SECTION("all forward before all backward") {
        spec.parallel.schedule = ScheduleKind::gpipe;
    }
    SECTION("one large microbatch") {
        spec.training.micro_batch_size = 4;
    }
    SECTION("microbatches of one sequence") {
        spec.training.micro_batch_size = 1;
    }
    const Result other = train_steps(spec, 1);
    CHECK(other.losses[0] == Approx(base.losses[0]).epsilon(1e-6));
    check_close(base.gradients, other.gradients, 0x1p-24);
}

TEST_CASE("the number of rows of logits at a time changes roundings only", "[model]") {
    const RunSpec spec = variant(GENERATE(0, 1, 4, 7, 12));
    const std::int64_t deferred = GENERATE(0, 1);
    struct Results {
        double loss = 0;
        NamedValues gradients;
        double evaluation = 0;
        std::vector<float> scores;
    };
    const auto results = [&](std::int64_t head_rows) {
        TinyRun run(
            spec, tested_backend(), 1, [](const RunPlan&, Backend&) { return one_rank_mesh(); },
            [&](RunPlan& plan) {
                plan.head_rows = head_rows;
                plan.deferred_heads = deferred;
                plan.scores_tasks = true;
            });
        const StepBatch batch = random_batch(run.plan(), 1);
        Results all;
        all.evaluation = run.engine().evaluate(batch).loss.mean();
        run.engine().forward_passes().score(
            batch.microbatches, run.plan().seq_length, run.engine().listeners(),
            [&](std::size_t, std::span<const float> maximum, std::span<const float> sums) {
                all.scores.insert(all.scores.end(), maximum.begin(), maximum.end());
                all.scores.insert(all.scores.end(), sums.begin(), sums.end());
            });
        all.loss = run.step(batch);
        all.gradients = run.gradients();
        return all;
    };
    // A microbatch has 48 tokens: the last part is a short one.
    const Results whole = results(48);
    const Results parts = results(20);
    CHECK(parts.loss == Approx(whole.loss).epsilon(1e-6));
    CHECK(parts.evaluation == Approx(whole.evaluation).epsilon(1e-6));
    check_close(whole.gradients, parts.gradients, 0x1p-24);
    REQUIRE(whole.scores.size() == 2 * 3 * 48);
    CHECK(distance(parts.scores, whole.scores) <= 100 * 0x1p-24 * norm(whole.scores));
}

TEST_CASE("the loss is a weighted mean over all tokens of the step", "[model]") {
    // A batch whose second microbatch counts one token only: a mean of means would differ.
    TinyRun run(tiny_spec());
    StepBatch batch = random_batch(run.plan(), 1);
    Microbatch& second = batch.microbatches[1];
    for (const float weight : second.weights)
        batch.weight_sum -= weight;
    second.weights.assign(second.weights.size(), 0.0f);
    second.weights[5] = 2.5f;
    batch.weight_sum += 2.5;

    const auto loss_of = [](StepBatch part) {
        part.weight_sum = 0;
        for (const float weight : part.microbatches[0].weights)
            part.weight_sum += weight;
        TinyRun fresh(tiny_spec());
        const WeightedSum sum = fresh.engine().evaluate(part).loss;
        return sum;
    };
    StepBatch first_only = batch;
    first_only.microbatches = {batch.microbatches[0]};
    StepBatch second_alone = batch;
    second_alone.microbatches = {second};
    WeightedSum sum = loss_of(first_only);
    sum.add(loss_of(second_alone));
    CHECK(sum.weight == Approx(batch.weight_sum));
    CHECK(run.step(batch) == Approx(sum.mean()).epsilon(1e-6));
}

TEST_CASE("dropout is on in training and off in evaluation", "[model]") {
    RunSpec spec = tiny_spec();
    TinyRun plain(spec);
    spec.model.dropout = 0.5;
    TinyRun dropping(spec);
    const StepBatch batch = random_batch(plain.plan(), 1);
    CHECK(plain.engine().evaluate(batch).loss.sum == dropping.engine().evaluate(batch).loss.sum);
    CHECK(plain.step(batch) != dropping.step(batch));
}

TEST_CASE("every parameter counts once in the gradient norm", "[model]") {
    const RunSpec spec = variant(GENERATE(0, 1, 4, 5));
    TinyRun run(spec);
    std::int64_t parameters = 0;
    run.engine().visit_gradients([&](const NamedState& state) {
        run.backend().run(Fill{.x = state.values, .value = 1});
        parameters += state.shard.elements();
    });
    CHECK(parameters == parameter_count(run.plan().model));
    CHECK(run.engine().gradient_norm() == Approx(std::sqrt(double(parameters))));
}
