#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "base/log.h"
#include "catch.h"
#include "mesh_cases.h"
#include "mesh_run.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

constexpr int steps = 5;

void check_series(const std::vector<double>& values, const std::vector<double>& right,
                  const std::vector<double>& noise) {
    REQUIRE(values.size() == right.size());
    for (std::size_t i = 0; i < right.size(); ++i) {
        CAPTURE(i, values[i], right[i]);
        CHECK(std::abs(values[i] - right[i]) <= allowed(noise[i], right[i]));
    }
}

void check_equal(const StepResults& results, const Reference& reference) {
    check_series(results.losses, reference.results.losses, reference.loss_noise);
    check_series(results.grad_norms, reference.results.grad_norms, reference.norm_noise);
    REQUIRE(results.weights.size() == reference.results.weights.size());
    for (const auto& [name, values] : reference.results.weights) {
        CAPTURE(name);
        CHECK(distance(results.weights.at(name), values) <=
              allowed(reference.weight_noise.at(name), norm(values)));
    }
    CHECK(results.counted == reference.results.counted);
}

/// For looking into a failure: only the cases whose names contain GPTRAIN_MESH_CASES.
bool wanted(const MeshCase& mesh_case) {
    const char* part = std::getenv("GPTRAIN_MESH_CASES");
    return part == nullptr || mesh_case.name.find(part) != std::string::npos;
}

PlanChange change_of(const MeshCase& mesh_case) {
    return [&](RunPlan& plan) { plan.messages_in_order |= mesh_case.messages_in_order; };
}

/// `spec` on the case's mesh.
RunSpec spec_of(RunSpec spec, const MeshCase& mesh_case) {
    spec.parallel = mesh_case.parallel;
    spec.recompute = mesh_case.recompute;
    spec.training.micro_batch_size = mesh_case.micro_batch_size;
    return spec;
}

/// 2-norm of the difference over all tensors.
double distance_of_all(const NamedValues& a, const NamedValues& b) {
    double squares = 0;
    for (const auto& [name, values] : a)
        squares += std::pow(distance(values, b.at(name)), 2);
    return std::sqrt(squares);
}

/// Compares the meshes that cover everything with one rank, after `change` of each model's spec.
void compare_covering(const std::function<void(RunSpec&)>& change) {
    const bool first = session().rank() == 0;
    std::map<std::string, RunSpec> specs;
    std::map<std::string, Reference> references;
    for (const Model& model : models())
        change(specs[model.name] = model.spec);
    for (const MeshCase& mesh_case : covering(tested_cases(session().size()))) {
        if (!wanted(mesh_case)) continue;
        const RunSpec& plain = specs.at(mesh_case.model);
        if (first && !references.contains(mesh_case.model))
            references[mesh_case.model] = make_reference(plain, steps, &progress());
        INFO(mesh_case.name);
        const StepResults results =
            run_on_mesh(session(), spec_of(plain, mesh_case), steps, change_of(mesh_case));
        if (first) check_equal(results, references.at(mesh_case.model));
    }
}

}  // namespace

TEST_CASE("Meshes in bf16 are about as far from fp32 as one rank is") {
    const bool first = session().rank() == 0;
    for (const Model& model : models()) {
        StepResults exact;
        StepResults alone;
        RunSpec spec = model.spec;
        if (first) exact = run_alone(spec, steps, &progress());
        spec.precision.compute = Precision::bf16;
        if (first) alone = run_alone(spec, steps, &progress());
        for (const MeshCase& mesh_case : tested_cases(session().size())) {
            if (mesh_case.model != model.name || !wanted(mesh_case)) continue;
            spec.parallel = mesh_case.parallel;
            spec.recompute = mesh_case.recompute;
            spec.training.micro_batch_size = mesh_case.micro_batch_size;
            INFO(mesh_case.name);
            const StepResults results = run_on_mesh(session(), spec, steps, change_of(mesh_case));
            if (!first) continue;
            CHECK(distance_of_all(results.weights, exact.weights) <=
                  2 * distance_of_all(alone.weights, exact.weights));
            for (std::size_t i = 0; i < exact.losses.size(); ++i) {
                // Rounding one logit to bf16 moves the loss of a token by this much.
                const double rounding = 0x1p-8;
                CHECK(std::abs(results.losses[i] - exact.losses[i]) <=
                      2 * std::abs(alone.losses[i] - exact.losses[i]) + rounding);
            }
        }
    }
}

TEST_CASE("Every mesh trains as one rank does") {
    const bool first = session().rank() == 0;
    std::map<std::string, RunSpec> specs;
    std::map<std::string, Reference> references;
    for (const Model& model : models())
        specs[model.name] = model.spec;
    for (const MeshCase& mesh_case : tested_cases(session().size())) {
        if (!wanted(mesh_case)) continue;
        if (first && !references.contains(mesh_case.model))
            references[mesh_case.model] =
                make_reference(specs.at(mesh_case.model), steps, &progress());
        const RunSpec spec = spec_of(specs.at(mesh_case.model), mesh_case);
        INFO(mesh_case.name);
        if (first) print(mesh_case.name);
        const StepResults results = run_on_mesh(session(), spec, steps, change_of(mesh_case));
        if (first) check_equal(results, references.at(mesh_case.model));
    }
}

TEST_CASE("Meshes with frozen parameters train as one rank does") {
    // Both ends of a tied embedding, a stage with nothing to train, parts of a bucket, norms.
    compare_covering([](RunSpec& spec) {
        spec.training.frozen = {"wte.weight", "h.0.*",           "h.1.*",
                                "h.2.mlp.*",  "h.*.attn.proj.*", "h.3.ln_1.*"};
    });
}

TEST_CASE("Meshes train LoRA as one rank does") {
    const bool all_layers = session().size() != 2;
    compare_covering([&](RunSpec& spec) { spec = with_lora(spec, all_layers); });
}

TEST_CASE("Meshes train virtual tokens as one rank does") {
    // On 4 ranks fewer of them than ranks of tp.
    const bool few = session().size() == 4;
    const AdapterKind kind = GENERATE(AdapterKind::prompt, AdapterKind::p_tuning);
    compare_covering([&](RunSpec& spec) { spec = with_virtual_tokens(spec, kind, few ? 1 : 5); });
}

TEST_CASE("Meshes with bidirectional attention train as one rank does") {
    compare_covering([](RunSpec& spec) {
        spec.objective = MlmSpec{.mask_id = 1};
        spec.model.sliding_window.reset();
    });
}

TEST_CASE("Meshes train with Muon as one rank does") {
    compare_covering([](RunSpec& spec) { spec.optimizer.name = "muon"; });
}

TEST_CASE("Muon computes the same bits with and without a sharded optimizer") {
    RunSpec spec = models().front().spec;
    spec.optimizer.name = "muon";
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16);
    spec.parallel.shard_optimizer = false;
    const StepResults whole = run_on_mesh(session(), spec, steps);
    spec.parallel.shard_optimizer = true;
    const StepResults sharded = run_on_mesh(session(), spec, steps);
    CHECK(sharded.losses == whole.losses);
    CHECK(sharded.weights == whole.weights);
}

}  // namespace gptrain::test
