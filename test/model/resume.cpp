// The state that a resumed engine carries over.
#include "catch.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

TEST_CASE("a restored engine counts on from every carried number", "[model]") {
    RunSpec spec = tiny_spec();
    spec.precision.compute = Precision::fp16;
    TinyRun run(spec);
    StepState carried = initial_step_state(8);
    carried.clean_steps = 998;
    carried.updates = 40;
    carried.skipped_steps = 5;
    carried.skipped_in_a_row = 2;
    run.engine().restore(carried);
    run.step(random_batch(run.plan(), 46));
    const StepState next = run.engine().read_state();
    CHECK(next.step == 46);
    CHECK(next.loss_scale == 8);
    CHECK(next.clean_steps == 999);
    CHECK(next.updates == 41);
    CHECK(next.skipped_steps == 5);
    CHECK(next.skipped_in_a_row == 0);
    // The thousandth clean step in a row doubles the scale.
    run.step(random_batch(run.plan(), 47));
    CHECK(run.engine().read_state().loss_scale == 16);
    CHECK(run.engine().read_state().clean_steps == 0);
}
