// The head's weight gradient, computed with the others or at the end of the step.
#include "catch.h"
#include "mesh_cases.h"
#include "mesh_run.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

TEST_CASE("Deferred weight gradients of the head change no bit") {
    const auto chunks = GENERATE(std::int64_t{1}, std::int64_t{2});
    for (const Model& model : models()) {
        CAPTURE(model.name, chunks);
        RunSpec spec = model.spec;
        spec.parallel.pipeline = 2;
        spec.parallel.tensor = session().size() / 2;
        spec.parallel.sequence_parallel = spec.parallel.tensor > 1;
        spec.parallel.virtual_stages = chunks;
        spec.parallel.schedule =
            chunks > 1 ? ScheduleKind::interleaved_one_f_one_b : ScheduleKind::one_f_one_b;
        const auto weights = [&](std::int64_t deferred) {
            const PlanChange change = [&](RunPlan& plan) { plan.deferred_heads = deferred; };
            return run_on_mesh(session(), spec, 2, change).weights;
        };
        const NamedValues expected = weights(0);
        CHECK(weights(3) == expected);
        CHECK(weights(1000) == expected);
    }
}

}  // namespace
}  // namespace gptrain::test
