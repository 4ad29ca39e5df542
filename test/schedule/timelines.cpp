// Simulated time: bubbles and costs.
#include <chrono>
#include <map>
#include <optional>

#include "catch.h"
#include "pipelines.h"

using namespace gptrain;

namespace {

double as_number(std::int64_t value) {
    return static_cast<double>(value);
}

/// The bubble of the theory; nothing for shapes that it says nothing of.
std::optional<double> theory(const PipelineShape& shape) {
    const double p = as_number(shape.stages);
    const double m = as_number(shape.microbatches);
    switch (shape.kind) {
        case ScheduleKind::gpipe:
        case ScheduleKind::one_f_one_b: return (p - 1) / m;
        case ScheduleKind::interleaved_one_f_one_b:
            if (shape.virtual_stages > 1 && shape.microbatches % shape.stages != 0) return {};
            return (p - 1) / (as_number(shape.virtual_stages) * m);
        case ScheduleKind::zero_bubble:
            if (shape.microbatches < (shape.is_v() ? 2 * shape.stages - 1 : shape.stages))
                return {};
            return (p - 1) / (3 * as_number(shape.virtual_stages) * m);
    }
    return {};
}

/// Seconds between a stage's first and last action in which it waits.
std::map<std::int64_t, double> inner_idle_times(const Timeline& timeline) {
    std::map<std::int64_t, double> begin;
    std::map<std::int64_t, double> end;
    std::map<std::int64_t, double> idle;
    for (const TimelineEvent& event : timeline.events) {
        if (!computes(event.kind)) continue;
        begin.try_emplace(event.stage, event.begin);
        end[event.stage] = event.end;
        idle[event.stage] -= event.end - event.begin;
    }
    for (auto& [stage, time] : idle) {
        time += end[stage] - begin[stage];
    }
    return idle;
}

}  // namespace

TEST_CASE("all lists run to their end, with the bubble of the theory", "[schedule]") {
    std::size_t compared = 0;
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        const double measured = unit_bubble(make_pipeline(shape));
        if (const auto expected = theory(shape)) {
            REQUIRE(measured == Approx(*expected).margin(1e-12));
            ++compared;
        }
        // No more than if the stages worked one after the other.
        REQUIRE(measured <= as_number(shape.stages - 1) + 1e-12);
        const double forward = unit_bubble(make_forward_pipeline(shape));
        REQUIRE(forward <= as_number(shape.stages - 1) / as_number(shape.microbatches) *
                                   (shape.microbatches % shape.stages == 0 ? 1 : 2) +
                               1e-12);
    }
    CHECK(compared > 200);
}

TEST_CASE("other costs change nothing of what must hold", "[schedule]") {
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        PipelineCosts costs = unit_costs(shape);
        double slowest = 0;
        double longest_way = 0;
        for (std::size_t i = 0; i < costs.chunks.size(); ++i) {
            const double more = static_cast<double>(i % 3);
            costs.chunks[i] = {1 + more, 1.5 + more, 0.5};
            longest_way += 2.5 + 2 * more;
        }
        costs.message = 0.25;
        longest_way += 2 * costs.message * as_number(shape.positions() - 1);
        for (std::int64_t stage = 0; stage < shape.stages; ++stage) {
            double work = 0;
            for (std::int64_t chunk = 0; chunk < shape.virtual_stages; ++chunk) {
                const ChunkCost& cost =
                    costs.chunks[static_cast<std::size_t>(position_of(shape, {stage, chunk}))];
                work += cost.forward + cost.backward_inputs + cost.backward_weights;
            }
            slowest = std::max(slowest, work * as_number(shape.microbatches));
        }
        const Timeline timeline = simulate(make_pipeline(shape), costs);
        const double seconds = span_of(timeline).seconds();
        REQUIRE(seconds >= slowest);
        REQUIRE(seconds >= longest_way - 0.25 * 2 * as_number(shape.positions()));
    }
}

TEST_CASE("a message takes its time once", "[schedule]") {
    const PipelineShape shape = {ScheduleKind::one_f_one_b, 2, 1, 1};
    PipelineCosts costs = unit_costs(shape);
    costs.chunks[1] = {2, 3, 4};
    costs.message = 0.5;
    const Timeline timeline = simulate(make_pipeline(shape), costs);
    // F, message, F, BW, message, BW.
    CHECK(span_of(timeline).seconds() == 1 + 0.5 + 2 + 7 + 0.5 + 2);
    CHECK(idle_times(timeline) == std::vector<double>{13 - 3, 13 - 9});
    CHECK(bubble(timeline) == Approx(14.0 / 12));
}

TEST_CASE("messages hide behind other actions", "[schedule]") {
    // Not in 1F1B: its few microbatches under way leave no time between a stage's F and the
    // gradient that it needs next.
    using enum ScheduleKind;
    for (const PipelineShape& shape :
         {PipelineShape{gpipe, 4, 1, 64}, PipelineShape{interleaved_one_f_one_b, 4, 2, 64},
          PipelineShape{interleaved_one_f_one_b, 4, 4, 64}, PipelineShape{zero_bubble, 4, 1, 64},
          PipelineShape{zero_bubble, 4, 2, 64}}) {
        INFO(name_of(shape));
        PipelineCosts costs = unit_costs(shape);
        const double without = span_of(simulate(make_pipeline(shape), costs)).seconds();
        costs.message = 0.5;
        const double with = span_of(simulate(make_pipeline(shape), costs)).seconds();
        // The first microbatch's way there and the last one's back, at most twice.
        CHECK(with > without);
        CHECK(with <= without + 4 * costs.message * as_number(shape.positions() - 1));
    }
}

TEST_CASE("no stage of ZB-V waits between its first and its last action", "[schedule]") {
    for (const std::int64_t p : {2, 3, 4, 8}) {
        const PipelineShape shape = {ScheduleKind::zero_bubble, p, 2, 2 * p + 1};
        INFO(name_of(shape));
        for (const auto& [stage, idle] :
             inner_idle_times(simulate(make_pipeline(shape), unit_costs(shape)))) {
            REQUIRE(idle == 0);
        }
    }
}

TEST_CASE("the largest pipelines take no time", "[schedule]") {
    using Clock = std::chrono::steady_clock;
    for (const PipelineShape& shape :
         {PipelineShape{ScheduleKind::one_f_one_b, 64, 1, 512},
          PipelineShape{ScheduleKind::interleaved_one_f_one_b, 35, 3, 280},
          PipelineShape{ScheduleKind::zero_bubble, 64, 2, 1024}}) {
        INFO(name_of(shape));
        const Clock::time_point begin = Clock::now();
        const double measured = unit_bubble(make_pipeline(shape));
        const std::chrono::duration<double> seconds = Clock::now() - begin;
        CHECK(measured == Approx(*theory(shape)));
        // A hundred times what it takes, for slow machines and sanitizers.
        CHECK(seconds.count() < 20);
    }
}
