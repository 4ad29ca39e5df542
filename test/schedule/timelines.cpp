// Simulated time: bubbles and costs.
#include <chrono>
#include <map>
#include <optional>
#include <tuple>

#include "base/checked.h"
#include "catch.h"
#include "pipelines.h"

using namespace gptrain;

namespace {

double as_number(std::int64_t value) {
    return static_cast<double>(value);
}

/// The theoretical bubble; nothing for shapes that the theory does not cover.
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

/// Seconds that a stage waits between its first and last action.
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

/// Costs that differ from chunk to chunk.
PipelineCosts uneven_costs(const PipelineShape& shape) {
    PipelineCosts costs = {.chunks = {}, .message = 0.25};
    for (std::int64_t model_chunk = 0; model_chunk < shape.model_chunks(); ++model_chunk) {
        const double more = as_number(model_chunk * 7 % 5);
        costs.chunks.push_back({1 + more, 1.5 + more, 0.5});
    }
    return costs;
}

}  // namespace

TEST_CASE("all lists run to their end, with the bubble of the theory", "[schedule]") {
    std::size_t compared = 0;
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        const double measured = unit_bubble(make_pipeline(shape));
        const auto expected = theory(shape);
        if (!expected) continue;
        REQUIRE(measured == Approx(*expected).margin(1e-12));
        ++compared;
    }
    CHECK(compared > 200);
}

TEST_CASE("an evaluation has the bubble of the theory", "[schedule]") {
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        const bool interleaved =
            shape.kind == ScheduleKind::interleaved_one_f_one_b && shape.virtual_stages > 1;
        if (interleaved && shape.microbatches % shape.stages != 0) continue;
        const double shorter = interleaved ? as_number(shape.virtual_stages) : 1;
        REQUIRE(unit_bubble(make_forward_pipeline(shape)) ==
                Approx(as_number(shape.stages - 1) / shorter / as_number(shape.microbatches))
                    .margin(1e-12));
    }
}

TEST_CASE("a smaller last group takes no longer than a whole one", "[schedule]") {
    for (const PipelineShape& shape : tested_shapes()) {
        if (shape.kind != ScheduleKind::interleaved_one_f_one_b) continue;
        INFO(name_of(shape));
        PipelineShape whole = shape;
        whole.microbatches = round_up(shape.microbatches, shape.stages);
        const PipelineCosts costs = unit_costs(shape);
        REQUIRE(span_of(simulate(make_pipeline(shape), costs)).seconds() <=
                span_of(simulate(make_pipeline(whole), costs)).seconds());
    }
}

TEST_CASE("with any costs an action begins when all that it needs is there", "[schedule]") {
    for (const PipelineShape& shape : tested_shapes()) {
        INFO(name_of(shape));
        const PipelineCosts costs = uneven_costs(shape);
        const Timeline timeline = simulate(make_pipeline(shape), costs);
        // By kind, chunk of the model and microbatch; BW represents B and W.
        std::map<std::tuple<ActionKind, std::int64_t, std::int64_t>, TimelineEvent> done;
        for (const TimelineEvent& event : timeline.events) {
            if (!computes(event.kind)) continue;
            const std::int64_t model_chunk = model_chunk_at(shape, {event.stage, event.chunk});
            done.emplace(std::tuple(event.kind, model_chunk, event.microbatch), event);
        }
        const ActionKind back = shape.kind == ScheduleKind::zero_bubble
                                    ? ActionKind::backward_inputs
                                    : ActionKind::backward;
        const auto follows = [&](const TimelineEvent& event, ActionKind kind,
                                 std::int64_t model_chunk) {
            const TimelineEvent& before = done.at({kind, model_chunk, event.microbatch});
            const double way = before.stage == event.stage ? 0 : costs.message;
            REQUIRE(event.begin >= before.end + way);
        };
        std::map<std::int64_t, double> free;
        for (const TimelineEvent& event : timeline.events) {
            if (!computes(event.kind)) continue;
            REQUIRE(event.begin >= free[event.stage]);
            free[event.stage] = event.end;
            const std::int64_t model_chunk = model_chunk_at(shape, {event.stage, event.chunk});
            if (event.kind == ActionKind::forward) {
                if (model_chunk > 0) follows(event, ActionKind::forward, model_chunk - 1);
            } else if (event.kind == back) {
                follows(event, ActionKind::forward, model_chunk);
                if (model_chunk + 1 < shape.model_chunks()) follows(event, back, model_chunk + 1);
            } else {
                follows(event, back, model_chunk);
            }
        }
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
    CHECK(busy_seconds(timeline) == 3 + 9);
    CHECK(bubble(timeline) == Approx(14.0 / 12));
}

TEST_CASE("a deferred weight gradient of the head shortens the step by its time", "[schedule]") {
    using enum ScheduleKind;
    for (PipelineShape shape : {PipelineShape{gpipe, 4, 1, 8}, PipelineShape{one_f_one_b, 4, 1, 8},
                                PipelineShape{interleaved_one_f_one_b, 4, 2, 8}}) {
        INFO(name_of(shape));
        PipelineCosts costs = unit_costs(shape);
        costs.chunks.back().forward += 1.5;
        costs.chunks.back().head_weights = 0.5;
        const double before = span_of(simulate(make_pipeline(shape), costs)).seconds();
        shape.deferred_heads = 5;
        CHECK(span_of(simulate(make_pipeline(shape), costs)).seconds() == Approx(before - 5 * 0.5));
    }
}

TEST_CASE("first weight gradients that take less time shorten the step once", "[schedule]") {
    using enum ScheduleKind;
    for (const PipelineShape& shape :
         {PipelineShape{gpipe, 1, 1, 8}, PipelineShape{one_f_one_b, 1, 1, 8},
          PipelineShape{zero_bubble, 1, 1, 8}, PipelineShape{zero_bubble, 1, 1, 1}}) {
        INFO(name_of(shape));
        PipelineCosts costs = unit_costs(shape);
        const double before = span_of(simulate(make_pipeline(shape), costs)).seconds();
        costs.chunks.front().first_saving = 0.25;
        CHECK(span_of(simulate(make_pipeline(shape), costs)).seconds() == before - 0.25);
    }
}

TEST_CASE("messages hide behind other actions", "[schedule]") {
    // Not in 1F1B: it has too few microbatches in flight to leave time between a stage's F and the
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
        // The first microbatch's path there and the last one's back, at most twice.
        CHECK(with > without);
        CHECK(with <= without + 4 * costs.message * as_number(shape.model_chunks() - 1));
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
        // A hundred times the usual time, for slow machines and sanitizers.
        CHECK(seconds.count() < 20);
    }
}
