// The lists of actions and messages, without a clock.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "catch.h"
#include "pipelines.h"

using namespace gptrain;

namespace {

using enum ActionKind;

Schedule one_stage(ScheduleKind kind, std::int64_t microbatches) {
    return make_schedule({.kind = kind, .microbatches = microbatches}, 0);
}

std::string stage_text(const PipelineShape& shape, std::int64_t stage) {
    return to_text(make_schedule(shape, stage));
}

/// A stage's work on each microbatch in each chunk, in order: "F BW".
std::map<std::pair<std::int64_t, std::int64_t>, std::string> work_of(const Schedule& schedule) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::string> work;
    for (const Action& action : schedule.actions) {
        if (!computes(action.kind)) continue;
        std::string& done = work[{action.chunk, action.microbatch}];
        done += text(done.empty() ? "" : " ", name_of(action.kind));
    }
    return work;
}

/// True if the model's next chunk, or the one before, waits for the result of the action.
bool passes_on(const Action& action) {
    return action.kind == forward || action.kind == backward || action.kind == backward_inputs;
}

/// The messages from one stage to another in the order in which one end issues them: direction,
/// microbatch, and the chunk of the model after the boundary.
using Messages = std::vector<std::tuple<bool, std::int64_t, std::int64_t>>;

Messages messages(const Pipeline& pipeline, std::int64_t stage, std::int64_t peer, bool sent) {
    Messages found;
    for (const Action& action : pipeline.stages[static_cast<std::size_t>(stage)].actions) {
        if (computes(action.kind) || action.peer != peer || sends(action.kind) != sent) continue;
        const std::int64_t model_chunk = model_chunk_at(pipeline.shape, {stage, action.chunk});
        const bool activations =
            action.kind == send_activations || action.kind == receive_activations;
        const bool before_boundary = sent == activations;
        found.emplace_back(activations, action.microbatch, model_chunk + (before_boundary ? 1 : 0));
    }
    return found;
}

}  // namespace

TEST_CASE("schedules of one stage", "[schedule]") {
    CHECK(to_text(one_stage(ScheduleKind::one_f_one_b, 3)) == "F0 BW0 F1 BW1 F2 BW2");
    CHECK(to_text(one_stage(ScheduleKind::gpipe, 3)) == "F0 F1 F2 BW2 BW1 BW0");
    CHECK(to_text(one_stage(ScheduleKind::zero_bubble, 2)) == "F0 B0 W0 F1 B1 W1");
    CHECK(one_stage(ScheduleKind::one_f_one_b, 5).slots == 1);
    CHECK(one_stage(ScheduleKind::gpipe, 5).slots == 5);
    CHECK(one_stage(ScheduleKind::zero_bubble, 5).defers_weights);
    CHECK_FALSE(one_stage(ScheduleKind::one_f_one_b, 5).defers_weights);
    CHECK(one_stage(ScheduleKind::gpipe, 5).buffers == 0);
}

TEST_CASE("lists that are known", "[schedule]") {
    CHECK(stage_text({ScheduleKind::one_f_one_b, 2, 1, 3}, 0) ==
          "F0 SF0>1 RB0<1 F1 SF1>1 BW0 RB1<1 F2 SF2>1 RB2<1 BW1 BW2");
    CHECK(stage_text({ScheduleKind::one_f_one_b, 2, 1, 3}, 1) ==
          "RF0<0 F0 RF1<0 BW0 SB0>0 F1 RF2<0 BW1 SB1>0 F2 BW2 SB2>0");
    CHECK(stage_text({ScheduleKind::zero_bubble, 2, 1, 3}, 1) ==
          "RF0<0 F0 RF1<0 B0 SB0>0 F1 B1 SB1>0 RF2<0 W0 F2 B2 SB2>0 W1 W2");
    // Four more F than the next stage, then groups of two through both chunks.
    CHECK(stage_text({ScheduleKind::interleaved_one_f_one_b, 2, 2, 2}, 0) ==
          "F0.0 SF0.0>1 RF0.1<1 F1.0 SF1.0>1 RF1.1<1 F0.1 SF0.1>1 RB0.1<1 F1.1 SF1.1>1 "
          "RB1.1<1 BW0.1 SB0.1>1 RB0.0<1 BW1.1 SB1.1>1 RB1.0<1 BW0.0 BW1.0");
    // The turn of the V needs no message.
    CHECK(stage_text({ScheduleKind::zero_bubble, 2, 2, 1}, 1) ==
          "RF0.0<0 F0.0 F0.1 SF0.1>0 RB0.1<0 B0.1 W0.1 B0.0 SB0.0>0 W0.0");
    CHECK(to_text(make_forward_schedule({ScheduleKind::one_f_one_b, 3, 1, 2}, 1)) ==
          "RF0<0 RF1<0 F0 SF0>2 F1 SF1>2");
}

TEST_CASE("no receive waits for the action that it is posted before", "[schedule]") {
    const auto reads = [](const Action& action, const Action& receive) {
        return action.microbatch == receive.microbatch && action.chunk == receive.chunk &&
               (action.kind == forward) == (receive.kind == receive_activations);
    };
    for (const PipelineShape& shape : tested_shapes()) {
        for (std::int64_t stage = 0; stage < shape.stages; ++stage) {
            const std::vector<Action> actions = make_schedule(shape, stage).actions;
            for (auto at = actions.begin(); at != actions.end(); ++at) {
                if (computes(at->kind) || sends(at->kind)) continue;
                const auto next = std::find_if(
                    at, actions.end(), [](const Action& action) { return computes(action.kind); });
                INFO(name_of(shape) << ": " << stage_text(shape, stage));
                const bool same = next->microbatch == at->microbatch && passes_on(*next);
                REQUIRE((!same || reads(*next, *at)));
            }
        }
    }
}

TEST_CASE("the first weight gradients of a chunk come before all its others", "[schedule]") {
    // The actions that start gradients, of the last stage.
    const auto firsts = [](const PipelineShape& shape) {
        const std::vector<Action> actions = make_schedule(shape, shape.stages - 1).actions;
        std::string all;
        for (std::size_t i = 0; i < actions.size(); ++i)
            if (starts_gradients(actions, i)) all += to_text(actions[i], shape.virtual_stages);
        return all;
    };
    CHECK(firsts({ScheduleKind::one_f_one_b, 2, 1, 3}) == "BW0");
    CHECK(firsts({ScheduleKind::gpipe, 2, 1, 3}) == "BW2");
    CHECK(firsts({ScheduleKind::zero_bubble, 2, 1, 3}) == "W0");
    CHECK(firsts({ScheduleKind::interleaved_one_f_one_b, 2, 2, 2}) == "BW0.1BW0.0");
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        for (std::int64_t stage = 0; stage < shape.stages; ++stage) {
            const std::vector<Action> actions = make_schedule(shape, stage).actions;
            std::set<std::int64_t> started;
            for (std::size_t i = 0; i < actions.size(); ++i) {
                const Action& action = actions[i];
                const bool adds = action.kind == backward || action.kind == backward_weights;
                REQUIRE(starts_gradients(actions, i) ==
                        (adds && started.insert(action.chunk).second));
            }
            REQUIRE(std::ssize(started) == shape.virtual_stages);
        }
    }
}

TEST_CASE("the last microbatches leave the head's weight gradient to the end", "[schedule]") {
    const PipelineShape plain = {ScheduleKind::one_f_one_b, 2, 1, 3};
    PipelineShape shape = plain;
    shape.deferred_heads = 2;
    CHECK(stage_text(shape, 0) == stage_text(plain, 0));
    CHECK(stage_text(shape, 1) == stage_text(plain, 1) + " WH1 WH2");
    CHECK(make_schedule(shape, 0).deferred_heads == 0);
    shape.deferred_heads = 100;
    CHECK(stage_text(shape, 1) == stage_text(plain, 1) + " WH0 WH1 WH2");
    CHECK(stage_text({ScheduleKind::interleaved_one_f_one_b, 2, 2, 2, 1}, 1)
              .ends_with("BW1.0 SB1.0>0 WH1.1"));
}

TEST_CASE("each deferred weight gradient of the head has memory of its own", "[schedule]") {
    for (PipelineShape shape : tested_shapes()) {
        INFO(name_of(shape));
        shape.deferred_heads = 3;
        const std::int64_t expected = std::min<std::int64_t>(3, shape.microbatches);
        const ChunkPlace head = head_place(shape);
        for (std::int64_t stage = 0; stage < shape.stages; ++stage) {
            const Schedule schedule = make_schedule(shape, stage);
            REQUIRE(schedule.deferred_heads == (stage == head.stage ? expected : 0));
            std::map<std::int64_t, std::int64_t> kept;
            std::int64_t last = -1;
            for (const Action& action : schedule.actions) {
                if (action.deferred_head == Action::none) continue;
                REQUIRE(action.chunk == head.chunk);
                REQUIRE(action.deferred_head < schedule.deferred_heads);
                if (action.kind == forward) {
                    REQUIRE(kept.emplace(action.deferred_head, action.microbatch).second);
                    continue;
                }
                REQUIRE(action.kind == head_weights);
                REQUIRE(kept.at(action.deferred_head) == action.microbatch);
                // Sums have the order of microbatches.
                REQUIRE(action.microbatch > std::exchange(last, action.microbatch));
                kept.erase(action.deferred_head);
            }
            REQUIRE(kept.empty());
        }
    }
}

TEST_CASE("chunks of the model lie where they should and nowhere else", "[schedule]") {
    CHECK(place_at({ScheduleKind::interleaved_one_f_one_b, 4, 3, 1}, 6) == ChunkPlace{2, 1});
    CHECK(place_at({ScheduleKind::zero_bubble, 4, 2, 1}, 7) == ChunkPlace{0, 1});
    CHECK(place_at({ScheduleKind::zero_bubble, 4, 2, 1}, 4) == ChunkPlace{3, 1});
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        for (std::int64_t model_chunk = 0; model_chunk < shape.model_chunks(); ++model_chunk) {
            REQUIRE(model_chunk_at(shape, place_at(shape, model_chunk)) == model_chunk);
        }
    }
    CHECK_THROWS_AS(make_schedule({ScheduleKind::one_f_one_b, 2, 2, 4}, 0), Error);
    CHECK_THROWS_AS(make_schedule({ScheduleKind::zero_bubble, 2, 3, 4}, 0), Error);
    CHECK_THROWS_AS(make_schedule({ScheduleKind::one_f_one_b, 2, 1, 4}, 2), Error);
}

TEST_CASE("every microbatch goes once through every chunk and back", "[schedule]") {
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        const bool apart = shape.kind == ScheduleKind::zero_bubble;
        for (std::int64_t stage = 0; stage < shape.stages; ++stage) {
            const Schedule schedule = make_schedule(shape, stage);
            REQUIRE(schedule.defers_weights == apart);
            REQUIRE(defers_weights(shape.kind) == apart);
            const auto work = work_of(schedule);
            REQUIRE(work.size() ==
                    static_cast<std::size_t>(shape.virtual_stages * shape.microbatches));
            for (const auto& [where, done] : work) {
                REQUIRE(done == (apart ? "F B W" : "F BW"));
            }
            const auto forward_work = work_of(make_forward_schedule(shape, stage));
            REQUIRE(forward_work.size() == work.size());
            for (const auto& [where, done] : forward_work) {
                REQUIRE(done == "F");
            }
        }
    }
}

TEST_CASE("the chunks of a stage end from the last to the first, with any microbatches",
          "[schedule]") {
    // Then data ranks with different numbers of microbatches sum gradients in the same order.
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        for (std::int64_t stage = 0; stage < shape.stages; ++stage) {
            std::vector<std::int64_t> left(static_cast<std::size_t>(shape.virtual_stages),
                                           shape.microbatches);
            std::vector<std::int64_t> ended;
            for (const Action& action : make_schedule(shape, stage).actions) {
                const bool ends = action.kind == ActionKind::backward ||
                                  action.kind == ActionKind::backward_weights;
                if (ends && --left[static_cast<std::size_t>(action.chunk)] == 0)
                    ended.push_back(action.chunk);
            }
            REQUIRE(std::ssize(ended) == shape.virtual_stages);
            REQUIRE(std::is_sorted(ended.rbegin(), ended.rend()));
        }
    }
}

TEST_CASE("receives stand in the order of the sends between any two stages", "[schedule]") {
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        for (const Pipeline& pipeline : {make_pipeline(shape), make_forward_pipeline(shape)}) {
            for (std::int64_t from = 0; from < shape.stages; ++from) {
                for (std::int64_t to = 0; to < shape.stages; ++to) {
                    REQUIRE(messages(pipeline, from, to, true) ==
                            messages(pipeline, to, from, false));
                }
            }
        }
    }
}

TEST_CASE(
    "a receive is posted before the action that precedes its use, unless it needs that action",
    "[schedule]") {
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        for (const Schedule& schedule : make_pipeline(shape).stages) {
            // By buffer, since the receive.
            std::map<std::int64_t, std::int64_t> computed;
            std::int64_t all = 0;
            const Action* previous = nullptr;
            for (const Action& action : schedule.actions) {
                if (computes(action.kind)) {
                    const auto received = computed.find(action.input);
                    if (received != computed.end()) {
                        const bool alone =
                            previous == nullptr ||
                            (passes_on(*previous) && previous->microbatch == action.microbatch);
                        REQUIRE(all - received->second >= (alone ? 0 : 1));
                        computed.erase(received);
                    }
                    ++all;
                    previous = &action;
                } else if (!sends(action.kind)) {
                    REQUIRE(computed.emplace(action.input, all).second);
                }
            }
            REQUIRE(computed.empty());
        }
    }
}
