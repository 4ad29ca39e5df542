#include "catch.h"
#include "engine/rank_model.h"

namespace gptrain {
namespace {

std::int64_t slots_of(const RunPlan& plan) {
    return op_limits(plan).expert_slots;
}

TEST_CASE("ops order the slots of all tokens, or the rows of the messages if these are more") {
    RunPlan plan;
    plan.micro_batch_size = 2;
    plan.seq_length = 12;
    CHECK(slots_of(plan) == 0);
    plan.model.experts = ExpertsSpec{.count = 8, .per_token = 2, .ffn_hidden_size = 4, .load = 1.5};
    plan.local = plan.model;
    CHECK(slots_of(plan) == 48);
    plan.mesh.data = plan.mesh.expert = 4;
    CHECK(slots_of(plan) == 72);
    // The streams of the four ranks have the tokens together.
    plan.mesh = {.tensor = 4, .expert = 4};
    plan.sequence_parallel = true;
    CHECK(slots_of(plan) == 48);
    plan.mesh.context = 2;
    CHECK(slots_of(plan) == 24);
}

}  // namespace
}  // namespace gptrain
