// Whole models on the emulated backend: settings that must not change a bit.
#include <cmath>

#include "catch.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

struct Result {
    std::vector<double> losses;
    NamedValues weights;
    bool operator==(const Result&) const = default;
};

Result train(TinyRun& run, int first, int last) {
    Result result;
    for (int step = first; step <= last; ++step)
        result.losses.push_back(run.step(random_batch(run.plan(), step)));
    result.weights = run.state("weight");
    return result;
}

Result train(const RunSpec& spec) {
    TinyRun run(spec);
    return train(run, 1, 2);
}

RunSpec two_layers(RunSpec spec, Precision compute) {
    spec.model.num_layers = 2;
    spec.model.dropout = 0.2;
    spec.precision.compute = compute;
    return spec;
}

}  // namespace

TEST_CASE("recomputation and schedule change no bit on the emulated backend", "[emulator]") {
    RunSpec spec = GENERATE(two_layers(tiny_spec(), Precision::bf16),
                            two_layers(tiny_llama_spec(), Precision::fp16),
                            two_layers(tiny_qwen_spec(), Precision::bf16));
    spec.recompute = Recompute::none;
    const Result none = train(spec);
    REQUIRE(std::isfinite(none.losses.back()));
    spec.recompute = Recompute::selective;
    CHECK(train(spec) == none);
    spec.recompute = Recompute::full;
    spec.parallel.schedule = ScheduleKind::zero_bubble;
    CHECK(train(spec) == none);
}

TEST_CASE("a restored state goes on bit for bit on the emulated backend", "[emulator]") {
    const RunSpec spec = two_layers(tiny_spec(), Precision::bf16);
    TinyRun straight(spec);
    train(straight, 1, 2);
    TinyRun resumed(spec);
    for (const char* group : {"weight", "exp_avg", "exp_avg_sq"})
        resumed.set_state(group, straight.state(group));
    resumed.engine().restore(straight.engine().read_state());
    CHECK(train(resumed, 3, 4) == train(straight, 3, 4));
}
