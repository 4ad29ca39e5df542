// Ranks that divide weights and gradients compute the bits of ranks that each have all of them,
// where sums have the same order.
#include <functional>
#include <string>
#include <vector>

#include "catch.h"
#include "mesh_run.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

constexpr int steps = 3;

RunSpec model_of(const std::string& name) {
    for (const Model& model : models())
        if (model.name == name) return model.spec;
    FAIL("no model " << name);
    return {};
}

/// With matrices that are large enough for other formats than fp32.
RunSpec wide_model() {
    RunSpec spec = model_of("llama");
    spec.model.num_layers = 3;
    spec.model.hidden_size = 128;
    spec.model.ffn_hidden_size = 128;
    return spec;
}

/// Features that go together with divided weights. Two data ranks share every parameter; on four
/// ranks each is two ranks of another axis.
struct Combination {
    const char* name;
    std::function<RunSpec()> spec;
    std::int64_t ParallelSpec::*other = &ParallelSpec::tensor;  ///< the axis of the other ranks
    Sharded most = Sharded::weights;
};

std::vector<Combination> combinations() {
    return {{"LoRA of a mixture whose experts are divided, too, and sums in bf16",
             [] {
                 RunSpec spec = with_lora(model_of("shared experts"));
                 spec.parallel.expert = 2;
                 spec.precision.compute = Precision::bf16;
                 spec.precision.grad_reduce = Precision::bf16;
                 return spec;
             },
             &ParallelSpec::context},
            {"Muon, with moments and main weights on the host, and sums in bf16",
             [] {
                 RunSpec spec = model_of("mixed");
                 spec.optimizer.name = "muon";
                 spec.precision.compute = Precision::bf16;
                 spec.precision.grad_reduce = Precision::bf16;
                 spec.offload = {.optimizer = true, .main_weights = true};
                 return spec;
             },
             &ParallelSpec::pipeline},
            {"moments, main weights and sums in bf16",
             [] {
                 RunSpec spec = wide_model();
                 spec.optimizer.state = MomentFormat::bf16;
                 spec.precision.compute = Precision::bf16;
                 spec.precision.main_weights = Precision::bf16;
                 spec.precision.grad_reduce = Precision::bf16;
                 return spec;
             }},
            {"masked language modelling with 8-bit moments",
             [] {
                 RunSpec spec = wide_model();
                 spec.optimizer.state = MomentFormat::eight_bit;
                 spec.objective = MlmSpec{.mask_id = 1};
                 return spec;
             },
             &ParallelSpec::pipeline},
            {"LoRA of a model in NF4",
             [] {
                 RunSpec spec = with_lora(wide_model());
                 spec.precision.frozen = FrozenWeights::nf4;
                 spec.precision.nf4_double = true;
                 return spec;
             },
             &ParallelSpec::tensor, Sharded::gradients}};
}

TEST_CASE("Dividing weights and gradients changes no bit of what a step computes") {
    if (session().size() > 4) return;
    for (const Combination& combination : combinations()) {
        CAPTURE(combination.name);
        RunSpec spec = combination.spec();
        spec.parallel.*combination.other = session().size() / 2;
        // One microbatch of each data rank, and the norm of all gradients changes nothing.
        spec.training.global_batch_size = 2 * spec.training.micro_batch_size;
        spec.optimizer.clip_grad = 0;
        const StepResults whole = run_on_mesh(session(), spec, steps);
        for (const Sharded shard : {Sharded::gradients, Sharded::weights}) {
            if (shard > combination.most) continue;
            CAPTURE(name_of(shard));
            spec.parallel.shard = shard;
            const StepResults divided = run_on_mesh(session(), spec, steps);
            CHECK(divided.losses == whole.losses);
            CHECK(divided.weights == whole.weights);
        }
    }
}

}  // namespace
}  // namespace gptrain::test
