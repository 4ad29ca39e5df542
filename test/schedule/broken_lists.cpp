// The simulator finds lists that would deadlock or mix up messages.
#include <algorithm>

#include "base/error.h"
#include "catch.h"
#include "pipelines.h"

using namespace gptrain;

namespace {

std::vector<Action>& actions(Pipeline& pipeline, std::int64_t stage) {
    return pipeline.stages[static_cast<std::size_t>(stage)].actions;
}

/// The index of an action, found by its text.
std::vector<Action>::iterator find(Pipeline& pipeline, std::int64_t stage, std::string_view name) {
    std::vector<Action>& list = actions(pipeline, stage);
    const auto found = std::find_if(list.begin(), list.end(), [&](const Action& action) {
        return to_text(action, pipeline.shape.virtual_stages) == name;
    });
    REQUIRE(found != list.end());
    return found;
}

void swap(Pipeline& pipeline, std::int64_t stage, std::string_view a, std::string_view b) {
    std::iter_swap(find(pipeline, stage, a), find(pipeline, stage, b));
}

std::string fault_of(const Pipeline& pipeline) {
    try {
        simulate(pipeline, unit_costs(pipeline.shape));
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::bug);
        return error.what();
    }
    return "none";
}

Pipeline sound() {
    return make_pipeline({ScheduleKind::one_f_one_b, 3, 1, 4});
}

}  // namespace

TEST_CASE("a sound pipeline has no fault", "[schedule]") {
    CHECK(fault_of(sound()) == "none");
}

TEST_CASE("receives in another order than the sends are found", "[schedule]") {
    Pipeline pipeline = sound();
    swap(pipeline, 1, "RF1<0", "RF2<0");
    CHECK(fault_of(pipeline) ==
          "message 1 from stage 0 to stage 1 is the activations of microbatch 1 for chunk 0 of "
          "stage 1, but stage 1 receives the activations of microbatch 2 for chunk 0 of stage 1");
}

TEST_CASE("a missing send is found", "[schedule]") {
    Pipeline pipeline = sound();
    actions(pipeline, 2).erase(find(pipeline, 2, "SB3>1"));
    CHECK(fault_of(pipeline) ==
          "the pipeline deadlocks: stage 0, BW3 waits until stage 1 sends the gradients of "
          "microbatch 3 for chunk 0 of stage 0; stage 1, BW3 waits until stage 2 sends the "
          "gradients of microbatch 3 for chunk 0 of stage 1; stage 2 has ended");
}

TEST_CASE("a missing receive is found", "[schedule]") {
    Pipeline pipeline = sound();
    actions(pipeline, 0).erase(find(pipeline, 0, "RB3<1"));
    CHECK(fault_of(pipeline).find("stage 0, BW3: its buffer holds ") == 0);
}

TEST_CASE("a message that nobody reads is found", "[schedule]") {
    Pipeline pipeline = sound();
    actions(pipeline, 0).erase(find(pipeline, 0, "BW3"));
    actions(pipeline, 0).erase(find(pipeline, 0, "RB3<1"));
    CHECK(fault_of(pipeline) ==
          "stage 1 sends the gradients of microbatch 3 for chunk 0 of stage 0, which stage 0 never "
          "receives");
}

TEST_CASE("stages that wait for each other are found", "[schedule]") {
    Pipeline pipeline = sound();
    // Stage 1 runs backward before it continues, stage 2 continues before it runs backward.
    swap(pipeline, 1, "F1", "BW0");
    swap(pipeline, 1, "SF1>2", "SB0>0");
    swap(pipeline, 2, "BW0", "F1");
    swap(pipeline, 2, "SB0>1", "BW0");
    CHECK(fault_of(pipeline) ==
          "the pipeline deadlocks: stage 0, BW0 waits until stage 1 sends the gradients of "
          "microbatch 0 for chunk 0 of stage 0; stage 1, BW0 waits until stage 2 sends the "
          "gradients of microbatch 0 for chunk 0 of stage 1; stage 2, F1 waits until stage 1 sends "
          "the activations of microbatch 1 for chunk 0 of stage 2; stage 1 is one of them");
}

TEST_CASE("a buffer that is written too early is found", "[schedule]") {
    Pipeline pipeline = sound();
    const auto second = find(pipeline, 1, "RF1<0");
    second->input = find(pipeline, 1, "RF0<0")->input;
    CHECK(fault_of(pipeline).find("stage 1, F0: its buffer holds ") == 0);
}
