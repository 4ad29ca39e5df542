// The shipped specs at their real sizes except for the number of layers: a vocabulary that no power
// of two divides, long sequences, and whatever libraries do for such sizes.
#include <array>
#include <cmath>
#include <string>

#include "catch.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

struct Result {
    double loss = 0;
    double grad_norm = 0;
    std::array<std::int64_t, axes> weights_checksums{};
    double evaluation = 0;  ///< after the step
    bool operator==(const Result&) const = default;
};

Result train_one_step(const RunSpec& spec) {
    TinyRun run(spec);
    const StepBatch batch = random_batch(run.plan(), 1);
    Result result;
    result.loss = run.step(batch);
    result.grad_norm = run.engine().read_state().grad_norm;
    result.weights_checksums = run.engine().weights_checksums();
    result.evaluation = run.engine().evaluate(batch).loss.mean();
    return result;
}

/// One microbatch of one sequence instead of the spec's batch.
RunSpec shipped(const std::string& name, Precision precision) {
    // FP8 needs a layer between the first and the last.
    const char* layers = precision == Precision::fp8 ? "3" : "2";
    RunSpec spec =
        load_run_spec(std::string(GPTRAIN_CONFIGS "/") + name + ".yaml",
                      {std::string("model.num_layers=") + layers, "training.micro_batch_size=1",
                       "training.global_batch_size=1", "checkpoint.async=false"});
    spec.training.rampup = {};
    spec.precision.compute = precision;
    return spec;
}

double rounding_of(Precision precision) {
    switch (precision) {
        case Precision::fp32: return 0x1p-24;
        case Precision::bf16: return 0x1p-9;
        case Precision::fp16: return 0x1p-12;
        case Precision::fp8: return 0x1p-4;
    }
    return 0;
}

}  // namespace

TEST_CASE("specs train and evaluate at real sizes in every precision and with recomputation") {
    for (const std::string name : {"gpt2-124m", "llama-style-160m", "quickstart", "bert-base"}) {
        double exact = 0;
        for (const Precision precision :
             {Precision::fp32, Precision::bf16, Precision::fp16, Precision::fp8}) {
            RunSpec spec = shipped(name, precision);
            CAPTURE(name, name_of(precision));
            spec.recompute = Recompute::none;
            const Result none = train_one_step(spec);
            // The logits of initial weights are small, so all tokens are about equally likely.
            const double uniform = std::log(static_cast<double>(spec.model.vocab_size));
            CHECK(std::abs(none.loss - uniform) < 0.5);
            CHECK(none.evaluation < none.loss);
            if (precision == Precision::fp32) exact = none.loss;
            // A few roundings of numbers of the loss's size.
            CHECK(std::abs(none.loss - exact) <= 4 * rounding_of(precision) * uniform);
            // Recomputation does not depend on the format of 16 bits. Small models show every pair.
            if (precision == Precision::fp16) continue;
            spec.recompute = precision == Precision::bf16 ? Recompute::selective : Recompute::full;
            CHECK(train_one_step(spec) == none);
        }
    }
}
