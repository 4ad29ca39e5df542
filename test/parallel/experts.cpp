// Experts divided among ranks: what a step does whose messages are too short.
#include "catch.h"
#include "compare.h"
#include "ranks.h"
#include "tiny_run.h"

namespace gptrain::test {
namespace {

/// A mixture whose experts are divided among all ranks, as data ranks or as ranks of tp.
RunSpec divided(double load, bool tensor) {
    RunSpec spec;
    for (const Model& model : models())
        if (model.name == "shared experts") spec = model.spec;
    spec.model.experts->load = load;
    const std::int64_t ranks = session().size();
    spec.parallel.tensor = tensor ? ranks : 1;
    spec.parallel.sequence_parallel = tensor;
    spec.parallel.data = tensor ? 1 : ranks;
    spec.parallel.expert = ranks;
    return spec;
}

std::unique_ptr<TinyRun> run_of(const RunSpec& spec) {
    return std::make_unique<TinyRun>(spec, make_backend(), session().size(),
                                     [&](const RunPlan& plan, Backend& backend) {
                                         return make_mesh(plan, backend, progress());
                                     });
}

StepBatch batch_of(const TinyRun& run, std::int64_t step) {
    return random_batch(run.plan(), step, 1, run.mesh().place().dp);
}

}  // namespace

TEST_CASE("Messages to experts of any length give the same forward, bit for bit") {
    const bool tensor = GENERATE(false, true);
    const auto losses = [&](double load) {
        const auto run = run_of(divided(load, tensor));
        std::vector<double> sums = {run->engine().evaluate(batch_of(*run, 1)).loss.sum};
        // The forward of a step, with dropout.
        run->step(batch_of(*run, 2));
        CHECK((run->repeats() > 0) == (load < 8));
        sums.push_back(run->engine().read_state().loss_sum);
        return sums;
    };
    const std::vector<double> unbounded = losses(8);
    CHECK(losses(1) == unbounded);
    CHECK(losses(1.25) == unbounded);
}

TEST_CASE("Steps change nothing until the one with unplaced rows is repeated") {
    const auto run = run_of(divided(1, false));
    Engine& engine = run->engine();
    const NamedValues before = run->state("weight");
    engine.step(batch_of(*run, 1));
    StepState state = engine.read_state();
    REQUIRE(state.skip == Skip::repeat);
    CHECK(state.unplaced_rows > 0);
    // Slices hold every row of the next one, but it has to wait.
    const std::int64_t most = run->plan().local.experts->most_slices(
        run->plan().micro_batch_size * run->plan().stream_length(), session().size());
    engine.step(batch_of(*run, 2), 0, {.slices = most});
    state = engine.read_state();
    CHECK(state.skip == Skip::repeat);
    CHECK(state.unplaced_rows == 0);
    CHECK(run->state("weight") == before);
    CHECK(state.updates == 0);
    CHECK(state.skipped_steps == 0);

    engine.step(batch_of(*run, 1), 0, {.slices = most, .repeats = true});
    CHECK(engine.read_state().skip == Skip::none);
    engine.step(batch_of(*run, 2), 0, {.slices = most});
    CHECK(engine.read_state().updates == 2);

    // Two steps that have never been skipped.
    const auto other = run_of(divided(1, false));
    other->engine().step(batch_of(*other, 1), 0, {.slices = most});
    other->engine().step(batch_of(*other, 2), 0, {.slices = most});
    CHECK(other->state("weight") == run->state("weight"));
}

}  // namespace gptrain::test
