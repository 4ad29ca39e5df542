#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/log.h"
#include "catch.h"
#include "compare.h"
#include "mesh_cases.h"
#include "mesh_run.h"
#include "ranks.h"

namespace gptrain::test {

TEST_CASE("Meshes in bf16 are about as far from fp32 as one rank is") {
    const bool first = session().rank() == 0;
    for (const Model& model : models()) {
        StepResults exact;
        StepResults alone;
        const auto run_in = [&](Precision precision) {
            RunSpec plain = model.spec;
            plain.precision.compute = precision;
            return run_alone(plain, compared_steps, &progress());
        };
        RunSpec spec = model.spec;
        spec.precision.compute = Precision::bf16;
        // Every mesh is compared in fp32, below.
        for (const MeshCase& mesh_case : covering_here(tested_cases(session().size()))) {
            if (mesh_case.model != model.name || !wanted(mesh_case)) continue;
            spec.parallel = mesh_case.parallel;
            spec.recompute = mesh_case.recompute;
            spec.training.micro_batch_size = mesh_case.micro_batch_size;
            INFO(mesh_case.name);
            if (first && exact.losses.empty()) {
                exact = run_in(Precision::fp32);
                alone = run_in(Precision::bf16);
            }
            const StepResults results =
                run_on_mesh(session(), spec, compared_steps, change_of(mesh_case));
            if (!first) continue;
            CHECK(distance_of_all(results.weights, exact.weights) <=
                  2 * distance_of_all(alone.weights, exact.weights));
            // One rank may happen to be close at some step, so its largest distance counts.
            double own = 0;
            for (std::size_t i = 0; i < exact.losses.size(); ++i)
                own = std::max(own, std::abs(alone.losses[i] - exact.losses[i]));
            for (std::size_t i = 0; i < exact.losses.size(); ++i) {
                // Rounding one logit to bf16 moves the loss of a token by this much.
                const double rounding = 0x1p-8;
                CHECK(std::abs(results.losses[i] - exact.losses[i]) <= 2 * own + rounding);
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
        if (!references.contains(mesh_case.model))
            references[mesh_case.model] = shared_reference(specs.at(mesh_case.model));
        const RunSpec spec = spec_of(specs.at(mesh_case.model), mesh_case);
        INFO(mesh_case.name);
        if (first) print(mesh_case.name);
        const StepResults results =
            run_on_mesh(session(), spec, compared_steps, change_of(mesh_case));
        if (first) check_equal(results, references.at(mesh_case.model));
        if (mesh_case.parallel.expert > 1) CHECK((results.repeats > 0) == (mesh_case.load == 1));
    }
}

TEST_CASE("Stages pass on all rows, also where tp cannot divide them") {
    if (session().size() < 4) return;
    RunSpec spec = models().front().spec;
    spec.training.seq_length = 15;
    spec.training.micro_batch_size = 1;
    spec.training.global_batch_size = 15;
    const Reference reference = shared_reference(spec);
    spec.parallel.tensor = 2;
    spec.parallel.pipeline = 2;
    const StepResults results = run_on_mesh(session(), spec, compared_steps);
    if (session().rank() == 0) check_equal(results, reference);
}

/// Takes every mesh.
bool any(const MeshCase& /*mesh_case*/) {
    return true;
}

/// 2 and 8 ranks divide the optimizer's state, and some of them more; 4 ranks divide more wherever
/// they can.
std::vector<MeshCase> divided(std::vector<MeshCase> cases) {
    return session().size() == 4 ? dividing_more(std::move(cases)) : cases;
}

TEST_CASE("Meshes with frozen parameters train as one rank does") {
    // Both ends of a tied embedding, a stage with nothing to train, parts of a bucket, norms.
    compare_covering(
        [](RunSpec& spec) {
            spec.training.frozen = {"wte.weight", "h.0.*",           "h.1.*",
                                    "h.2.mlp.*",  "h.*.attn.proj.*", "h.3.ln_1.*"};
            if (spec.model.experts) spec.training.frozen[3] = "h.2.experts.*";
        },
        any, divided);
}

TEST_CASE("Meshes train LoRA as one rank does") {
    const bool all_layers = session().size() != 2;
    compare_covering([&](RunSpec& spec) { spec = with_lora(spec, all_layers); }, is_dense, divided);
}

/// Data that change what a rank reads, not what ranks say to each other: three axes at once show
/// nothing that two do not.
bool too_many_ranks() {
    return session().size() > 4;
}

TEST_CASE("Meshes train virtual tokens as one rank does") {
    if (too_many_ranks()) return;
    // On 4 ranks fewer of them than ranks of tp.
    const bool few = session().size() == 4;
    const AdapterKind kind = GENERATE(AdapterKind::prompt, AdapterKind::p_tuning);
    compare_covering([&](RunSpec& spec) { spec = with_virtual_tokens(spec, kind, few ? 1 : 5); },
                     is_dense, divided);
}

TEST_CASE("Meshes whose tokens see their own document only train as one rank does") {
    if (too_many_ranks()) return;
    compare_covering([](RunSpec& spec) {
        spec.data.eod_id = 0;
        spec.data.reset_at_eod = true;
    });
}

TEST_CASE("Meshes with bidirectional attention train as one rank does") {
    if (too_many_ranks()) return;
    compare_covering([](RunSpec& spec) {
        spec.objective = MlmSpec{.mask_id = 1};
        spec.model.sliding_window.reset();
        // ALiBi is for causal attention.
        if (spec.model.position_embedding == PositionEmbedding::alibi)
            spec.model.position_embedding = PositionEmbedding::learned;
    });
}

TEST_CASE("Meshes train with Muon as one rank does") {
    compare_covering([](RunSpec& spec) { spec.optimizer.name = "muon"; }, any, divided);
}

TEST_CASE("A restored state takes the place of weights that are on their way") {
    RunSpec spec = models().front().spec;
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16);
    CommListeners listeners;
    listeners.add(progress());
    TinyRun run(spec, make_backend(), session().size(), [&](const RunPlan& plan, Backend& backend) {
        return make_mesh(plan, backend, listeners);
    });
    run.engine().listen(progress());
    const StepBatch batch = random_batch(run.plan(), 1, 1, run.mesh().place().dp);
    const NamedValues before = run.state("weight");
    const double loss = run.engine().evaluate(batch).loss.mean();
    run.step(batch);
    run.set_weights(before);
    CHECK(run.engine().evaluate(batch).loss.mean() == loss);
    // The step did change them.
    run.step(batch);
    CHECK(run.engine().evaluate(batch).loss.mean() != loss);
}

TEST_CASE("Muon computes the same bits with and without a sharded optimizer") {
    RunSpec spec = models().front().spec;
    spec.optimizer.name = "muon";
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16);
    spec.parallel.shard = Sharded::none;
    const StepResults whole = run_on_mesh(session(), spec, compared_steps);
    spec.parallel.shard = Sharded::optimizer;
    const StepResults sharded = run_on_mesh(session(), spec, compared_steps);
    CHECK(sharded.losses == whole.losses);
    CHECK(sharded.weights == whole.weights);
}

TEST_CASE("State and activations in host memory do not change a bit on a mesh") {
    const std::int64_t ranks = session().size();
    if (ranks > 4) return;
    const int index = GENERATE(0, 1);
    const Model model = models()[index];
    ParallelSpec parallel;
    if (index == 1) parallel.shard = Sharded::weights;
    // All on one axis; on 4 ranks half of them on dp.
    const std::int64_t others = ranks > 2 ? ranks / 2 : ranks;
    const std::string axis = GENERATE("dp", "pp", "cp", "tp");
    if (axis == "pp") parallel.pipeline = others;
    if (axis == "cp") parallel.context = others;
    if (axis == "tp") parallel.tensor = others;
    parallel.sequence_parallel = axis == "tp";
    RunSpec spec = model.spec;
    spec.parallel = parallel;
    spec.precision.compute = Precision::bf16;
    spec.optimizer.name = axis == "dp" ? "adamw" : "muon";
    spec.recompute = Recompute::full;
    CAPTURE(model.name, axis);
    const StepResults resident = run_on_mesh(session(), spec, compared_steps);
    spec.offload = {
        .optimizer = true, .main_weights = true, .activations = OffloadedActivations::blocks};
    const StepResults offloaded = run_on_mesh(session(), spec, compared_steps);
    CHECK(offloaded.losses == resident.losses);
    CHECK(offloaded.grad_norms == resident.grad_norms);
    CHECK(offloaded.weights == resident.weights);
}

}  // namespace gptrain::test
