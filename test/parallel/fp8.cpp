// Meshes in FP8.
#include <map>
#include <string>
#include <vector>

#include "catch.h"
#include "compare.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

/// True if FP8 takes the case: its GEMMs have sizes that are multiples of 16. Not for deep models,
/// in which a rounding to 8 bits that goes the other way moves all that follows.
bool goes_in_fp8(const MeshCase& mesh_case) {
    const ParallelSpec& p = mesh_case.parallel;
    const bool model = mesh_case.model == "gpt" || mesh_case.model == "llama";
    return model && mesh_case.micro_batch_size == 2 && p.tensor <= 2 && p.context <= 2;
}

/// The cases of these ranks in FP8. Shallow models that FP8 does not take are replaced by one that
/// it does: their meshes suit it as well.
std::vector<MeshCase> cases_in_fp8() {
    std::vector<MeshCase> cases = tested_cases(session().size());
    for (MeshCase& mesh_case : cases) {
        const bool shallow = mesh_case.model.find("deep") == std::string::npos;
        if (!shallow || mesh_case.parallel.expert > 1 || mesh_case.model == "llama") continue;
        mesh_case.name = text("gpt for ", mesh_case.name);
        mesh_case.model = "gpt";
    }
    std::erase_if(cases, [](const MeshCase& mesh_case) { return !goes_in_fp8(mesh_case); });
    return cases;
}

/// The model in blocks, small enough to train in a moment.
RunSpec few_blocks(RunSpec spec) {
    spec = in_blocks(std::move(spec));
    spec.model.num_layers = 3;
    spec.training.global_batch_size = 16;
    return spec;
}

/// True if a rank converts parts of tensors, each with a separate scale.
bool splits_tensors(const MeshCase& mesh_case) {
    return mesh_case.parallel.tensor > 1 || mesh_case.parallel.context > 1;
}

TEST_CASE("Meshes whose ranks have whole tensors train in FP8 as one rank does") {
    compare_covering([](RunSpec& spec) { spec.precision.compute = Precision::fp8; },
                     [](const MeshCase& mesh_case) {
                         return goes_in_fp8(mesh_case) && !splits_tensors(mesh_case);
                     });
}

TEST_CASE("Meshes whose ranks have parts of tensors are in FP8 as far from fp32 as one rank is") {
    const bool first = session().rank() == 0;
    std::map<std::string, StepResults> exact;
    std::map<std::string, StepResults> alone;
    std::map<std::string, RunSpec> specs;
    for (const Model& model : models())
        specs[model.name] = model.spec;
    std::vector<MeshCase> cases = cases_in_fp8();
    std::erase_if(cases, [](const MeshCase& mesh_case) { return !splits_tensors(mesh_case); });
    REQUIRE(!cases.empty());
    for (const MeshCase& mesh_case : covering_here(cases)) {
        if (!wanted(mesh_case)) continue;
        RunSpec spec = specs.at(mesh_case.model);
        const std::string& model = mesh_case.model;
        if (first && !exact.contains(model))
            exact[model] = run_alone(spec, compared_steps, &progress());
        spec.precision.compute = Precision::fp8;
        if (first && !alone.contains(model))
            alone[model] = run_alone(spec, compared_steps, &progress());
        INFO(mesh_case.name);
        const StepResults results =
            run_on_mesh(session(), spec_of(spec, mesh_case), compared_steps, change_of(mesh_case));
        if (!first) continue;
        CHECK(distance_of_all(results.weights, exact.at(model).weights) <=
              2 * distance_of_all(alone.at(model).weights, exact.at(model).weights));
    }
}

TEST_CASE("With scales for blocks meshes are as far from fp32 as one rank is") {
    const bool first = session().rank() == 0;
    // Attention writes FP8, but not on ranks of cp.
    RunSpec spec = with_wide_heads(few_blocks(models().front().spec));
    spec.precision.fp8_weight_gradients = Precision::fp8;
    StepResults alone;
    StepResults exact;
    if (first) {
        alone = run_alone(spec, 2, &progress());
        RunSpec fp32 = spec;
        fp32.precision = {.compute = Precision::fp32};
        exact = run_alone(fp32, 2, &progress());
    }
    struct Ranks {
        std::int64_t tensor, context, pipeline;
        bool slices = false;
    };
    for (const auto& [tensor, context, pipeline, slices] :
         {Ranks{2, 1, 1}, Ranks{2, 1, 1, true}, Ranks{1, 2, 1}, Ranks{1, 1, 2}, Ranks{1, 1, 1}}) {
        CAPTURE(tensor, context, pipeline, slices);
        RunSpec split = spec;
        split.parallel.tensor = tensor;
        split.parallel.sequence_parallel = slices;
        split.parallel.context = context;
        split.parallel.pipeline = pipeline;
        const StepResults results = run_on_mesh(session(), split, 2);
        if (!first) continue;
        CHECK(distance_of_all(results.weights, exact.weights) <=
              2 * distance_of_all(alone.weights, exact.weights));
    }
}

TEST_CASE("Gathered FP8 is what converting after a gather would give") {
    const auto [recipe, gradients] =
        GENERATE(table<Fp8Recipe, Precision>({{Fp8Recipe::tensor, Precision::fp8},
                                              {Fp8Recipe::tensor, Precision::bf16},
                                              {Fp8Recipe::block, Precision::bf16}}));
    CAPTURE(name_of(recipe), name_of(gradients));
    RunSpec spec = models().front().spec;
    spec.precision.compute = Precision::fp8;
    spec.precision.fp8_weight_gradients = gradients;
    if (recipe == Fp8Recipe::block) spec = few_blocks(spec);
    spec.parallel.tensor = 2;
    const auto losses_of = [&](bool slices, OverlapTensor overlap, std::int64_t sequences) {
        RunSpec split = spec;
        split.parallel.sequence_parallel = slices;
        split.parallel.overlap_tensor = overlap;
        split.training.micro_batch_size = sequences;
        return run_on_mesh(session(), split, 2).losses;
    };
    for (const std::int64_t sequences : {1, 2}) {
        CAPTURE(sequences);
        const std::vector<double> whole = losses_of(false, OverlapTensor::off, sequences);
        const std::vector<double> gathered = losses_of(true, OverlapTensor::off, sequences);
        if (session().rank() != 0) continue;
        CHECK(gathered.front() == whole.front());
        // After the first update: some gradients are added in another order.
        CHECK(gathered.back() == Approx(whole.back()).epsilon(1e-3));
    }
    // In pieces of whole sequences nothing is added in another order, except by a GEMM library that
    // takes another kernel for fewer rows, as oneDNN does for AVX2; updates make more of that.
    const std::vector<double> whole = losses_of(true, OverlapTensor::off, 2);
    const std::vector<double> pieces = losses_of(true, OverlapTensor::on, 2);
    if (session().rank() != 0) return;
    CHECK(pieces.front() == Approx(whole.front()).epsilon(1e-6));
    CHECK(pieces.back() == Approx(whole.back()).epsilon(1e-3));
}

/// One that trains everything by AdamW, one with scales for blocks, one whose matrices belong whole
/// to one rank, and one with frozen matrices.
RunSpec in_fp8(int index) {
    RunSpec spec = models().front().spec;
    spec.precision.compute = Precision::fp8;
    if (index == 1) spec = few_blocks(spec);
    if (index == 2) spec.optimizer.name = "muon";
    if (index == 3) spec = with_lora(spec);
    return spec;
}

TEST_CASE("Weights that are gathered in FP8 are those that each rank has whole") {
    if (session().size() > 4) return;
    const int index = GENERATE(range(0, 4));
    CAPTURE(index);
    RunSpec spec = in_fp8(index);
    if (index % 2 == 0) spec.parallel.tensor = session().size() / 2;
    if (index == 3) spec.parallel.pipeline = session().size() / 2;
    const std::int64_t data = session().size() / (spec.parallel.tensor * spec.parallel.pipeline);
    // A rank has one microbatch, so that sums have the same order, and nothing is clipped.
    spec.training.global_batch_size = spec.training.micro_batch_size * data;
    spec.optimizer.clip_grad = 0;
    const StepResults whole = run_on_mesh(session(), spec, compared_steps);
    spec.parallel.shard = Sharded::weights;
    const StepResults gathered = run_on_mesh(session(), spec, compared_steps);
    CHECK(gathered.losses == whole.losses);
    CHECK(gathered.weights == whole.weights);
}

TEST_CASE("FP8 scales the attention output on every cp rank") {
    const bool first = session().rank() == 0;
    // The output reaches the gradient of its own projection alone, which is the only one trained,
    // and is so small that E4M3 cannot hold it without its scale.
    RunSpec spec = models().front().spec;
    spec.precision.compute = Precision::fp8;
    spec.model.init_std = 1e-4;
    spec.training.seq_length = 64;
    spec.training.frozen = {"w*",       "h.0.*",     "h.3.*",      "h.*.ln_*",
                            "h.*.q.*",  "h.*.k.*",   "h.*.v.*",    "h.*.mlp.*",
                            "h.*.bias", "ln_f.bias", "ln_f.weight"};
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        spec.recompute = recompute;
        StepResults alone;
        if (first) alone = run_alone(spec, 1, &progress());
        for (const ContextMethod method : {ContextMethod::ring, ContextMethod::all_to_all}) {
            CAPTURE(name_of(recompute), name_of(method));
            RunSpec split = spec;
            split.parallel.context = session().size();
            split.parallel.context_method = method;
            const StepResults results = run_on_mesh(session(), split, 1);
            if (!first) continue;
            // The scales differ between ranks. They change how an operand is rounded: E4M3 to
            // within 2^-4 of its size, E5M2 to within 2^-3.
            const double rounding = 0x1p-4 + 0x1p-3;
            CHECK(std::abs(results.grad_norms[0] - alone.grad_norms[0]) <=
                  2 * rounding * alone.grad_norms[0]);
        }
    }
}

}  // namespace
}  // namespace gptrain::test
