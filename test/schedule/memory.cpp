// Slots and boundary buffers.
#include <algorithm>
#include <map>

#include "catch.h"
#include "pipelines.h"

using namespace gptrain;

namespace {

using enum ActionKind;

std::int64_t most_slots(const Pipeline& pipeline) {
    std::int64_t most = 0;
    for (const Schedule& schedule : pipeline.stages) {
        most = std::max(most, schedule.slots);
    }
    return most;
}

}  // namespace

TEST_CASE("a slot belongs to one microbatch of one chunk from F to its end", "[schedule]") {
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        for (const Schedule& schedule : make_pipeline(shape).stages) {
            std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> held;
            std::size_t most = 0;
            for (const Action& action : schedule.actions) {
                if (!computes(action.kind)) continue;
                REQUIRE(action.slot >= 0);
                REQUIRE(action.slot < schedule.slots);
                const std::pair owner = {action.chunk, action.microbatch};
                if (action.kind == forward) REQUIRE(held.emplace(action.slot, owner).second);
                REQUIRE(held.at(action.slot) == owner);
                most = std::max(most, held.size());
                if (action.kind == backward || action.kind == backward_weights) {
                    held.erase(action.slot);
                }
            }
            REQUIRE(held.empty());
            // No more slots than are in use at a time.
            REQUIRE(static_cast<std::int64_t>(most) == schedule.slots);
        }
    }
}

TEST_CASE("the number of slots is that of the theory", "[schedule]") {
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        const std::int64_t p = shape.stages;
        const std::int64_t m = shape.microbatches;
        const std::int64_t v = shape.virtual_stages;
        const Pipeline pipeline = make_pipeline(shape);
        for (std::int64_t stage = 0; stage < p; ++stage) {
            INFO("stage " << stage);
            const std::int64_t slots = pipeline.stages[static_cast<std::size_t>(stage)].slots;
            const std::int64_t behind = p - 1 - stage;
            switch (shape.kind) {
                case ScheduleKind::gpipe: REQUIRE(slots == m); break;
                case ScheduleKind::one_f_one_b: REQUIRE(slots == std::min(m, p - stage)); break;
                case ScheduleKind::interleaved_one_f_one_b: {
                    const std::int64_t warmup = v == 1 ? behind : 2 * behind + (v - 1) * p;
                    const std::int64_t theory = std::min(m * v, warmup + 1);
                    if (m % p == 0) REQUIRE(slots == theory);
                    REQUIRE(slots <= theory);
                    break;
                }
                case ScheduleKind::zero_bubble:
                    if (v == 1 || m >= 2 * p - 1) REQUIRE(slots == v * std::min(m, p));
                    REQUIRE(slots <= v * std::min(m, p));
                    break;
            }
        }
        if (shape.kind == ScheduleKind::zero_bubble) {
            const PipelineShape plain = {ScheduleKind::one_f_one_b, p, 1, m};
            REQUIRE(most_slots(pipeline) <= v * most_slots(make_pipeline(plain)));
        }
    }
}

TEST_CASE("what the head keeps lives from F to B", "[schedule]") {
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        const ChunkPlace last = head_place(shape);
        const Pipeline pipeline = make_pipeline(shape);
        for (std::int64_t stage = 0; stage < shape.stages; ++stage) {
            const Schedule& schedule = pipeline.stages[static_cast<std::size_t>(stage)];
            if (stage != last.stage) {
                REQUIRE(schedule.head_slots == 0);
                continue;
            }
            // There is more than one only if all F come first.
            REQUIRE(schedule.head_slots ==
                    (shape.kind == ScheduleKind::gpipe ? schedule.slots : 1));
            std::map<std::int64_t, std::int64_t> held;
            for (const Action& action : schedule.actions) {
                if (!computes(action.kind) || action.chunk != last.chunk) continue;
                const std::int64_t place = action.slot % schedule.head_slots;
                if (action.kind == forward) REQUIRE(held.emplace(place, action.microbatch).second);
                if (action.kind == backward || action.kind == backward_inputs) {
                    REQUIRE(held.at(place) == action.microbatch);
                    held.erase(place);
                }
            }
        }
    }
}

TEST_CASE("a pipeline needs few boundary buffers, however long it is", "[schedule]") {
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        // Two for each direction that it sends and two that it receives; ZB-V sends in four
        // directions.
        const std::int64_t most = shape.is_v() ? 10 : 6;
        for (const Schedule& schedule : make_pipeline(shape).stages) {
            REQUIRE(schedule.buffers <= most);
        }
        for (const Schedule& schedule : make_forward_pipeline(shape).stages) {
            REQUIRE(schedule.slots == 1);
            REQUIRE(schedule.buffers <= most);
        }
    }
}
