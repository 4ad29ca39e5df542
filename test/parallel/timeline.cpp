// The timeline of a real step, as its ranks measured it.
#include <algorithm>
#include <map>
#include <optional>

#include "base/json.h"
#include "catch.h"
#include "comm/mpi_mesh.h"
#include "cpu/cpu_backend.h"
#include "mesh_cases.h"
#include "planner/step_recorder.h"
#include "ranks.h"
#include "schedule/stage_plan.h"
#include "spec/make_plan.h"
#include "support/temp_folder.h"
#include "tiny_run.h"

namespace gptrain::test {
namespace {

/// The second of three steps.
Timeline measure(const RunSpec& spec, const MeshShape& mesh) {
    std::optional<Timeline> timeline;
    StepRecorder recorder(
        2, [&](const StepRecord& record) { timeline = gather_timeline(record, mesh, session()); });
    TinyRun run(
        spec, cpu::make_backend(), session().size(), [&](const RunPlan& plan, Backend& backend) {
            return mpi_mesh(session(), plan.mesh, mesh_connections(plan), backend, &recorder);
        });
    run.engine().listen(recorder);
    for (int step = 1; step <= 3; ++step) {
        CHECK(recorder.complete() == (step == 3));
        run.step(random_batch(run.plan(), step, 1, run.mesh().place().dp));
    }
    REQUIRE(timeline);
    timeline->title = "measured";
    return *timeline;
}

MeshShape shape_of(const RunSpec& spec) {
    return {.data = *spec.parallel.data,
            .pipeline = spec.parallel.pipeline,
            .context = 1,
            .tensor = spec.parallel.tensor};
}

std::vector<TimelineEvent> events_of(const Timeline& timeline, std::int64_t stage) {
    std::vector<TimelineEvent> events;
    std::copy_if(timeline.events.begin(), timeline.events.end(), std::back_inserter(events),
                 [&](const TimelineEvent& event) { return event.stage == stage; });
    return events;
}

/// Checks that each stage has done its list, one computation after the other.
void check_lists(const Timeline& timeline, const Pipeline& pipeline) {
    REQUIRE(timeline.stages == std::ssize(pipeline.stages));
    for (std::int64_t stage = 0; stage < timeline.stages; ++stage) {
        CAPTURE(stage);
        const auto& actions = pipeline.stages[static_cast<std::size_t>(stage)].actions;
        const std::vector<TimelineEvent> events = events_of(timeline, stage);
        REQUIRE(events.size() == actions.size());
        double computed = 0;
        double begun = 0;
        for (std::size_t i = 0; i < actions.size(); ++i) {
            CAPTURE(i, to_text(actions[i], timeline.chunks));
            CHECK(events[i].kind == actions[i].kind);
            CHECK(events[i].microbatch == actions[i].microbatch);
            CHECK(events[i].chunk == actions[i].chunk);
            CHECK(events[i].begin >= begun);
            CHECK(events[i].end >= events[i].begin);
            begun = events[i].begin;
            if (!computes(events[i].kind)) continue;
            CHECK(events[i].begin >= computed);
            computed = events[i].end;
        }
    }
}

/// Checks that a message is computed, sent, received and then read, in this order.
void check_messages(const Timeline& timeline, const Pipeline& pipeline) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<TimelineEvent>> sent;
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<TimelineEvent>> received;
    for (std::int64_t stage = 0; stage < timeline.stages; ++stage) {
        const auto& actions = pipeline.stages[static_cast<std::size_t>(stage)].actions;
        const std::vector<TimelineEvent> events = events_of(timeline, stage);
        for (std::size_t i = 0; i < actions.size(); ++i) {
            if (computes(actions[i].kind)) continue;
            if (sends(actions[i].kind)) {
                sent[{stage, actions[i].peer}].push_back(events[i]);
            } else {
                received[{actions[i].peer, stage}].push_back(events[i]);
            }
        }
    }
    REQUIRE(sent.size() == received.size());
    for (const auto& [way, messages] : sent) {
        CAPTURE(way.first, way.second);
        const std::vector<TimelineEvent>& others = received[way];
        REQUIRE(messages.size() == others.size());
        for (std::size_t i = 0; i < messages.size(); ++i) {
            CHECK(messages[i].microbatch == others[i].microbatch);
            CHECK(messages[i].begin < others[i].end);
            CHECK(messages[i].end == others[i].end);
        }
    }
}

/// Gradients are reduced while backward is still running.
void check_overlap(const Timeline& timeline) {
    for (std::int64_t stage = 0; stage < timeline.stages; ++stage) {
        CAPTURE(stage);
        const std::vector<TimelineEvent> events = events_of(timeline, stage);
        const auto last = std::find_if(events.rbegin(), events.rend(), [](const auto& event) {
            return computes(event.kind) && event.kind != ActionKind::forward;
        });
        int early = 0;
        for (const TimelineOperation& operation : timeline.operations) {
            CHECK(operation.begin <= operation.wait);
            CHECK(operation.wait <= operation.end);
            if (operation.stage != stage || operation.name != "dp x cp reduce_scatter") continue;
            if (operation.begin < last->end) ++early;
            CHECK(operation.wait >= last->end);
        }
        CHECK(early > 0);
    }
}

void check_files(const Timeline& timeline) {
    const Json trace = parse_json(to_trace_json(timeline), "step.json");
    const auto bars = std::count_if(trace["traceEvents"].begin(), trace["traceEvents"].end(),
                                    [](const Json& event) { return event["ph"] == "X"; });
    CHECK(bars == std::ssize(timeline.events) + 2 * std::ssize(timeline.operations));
    CHECK(trace["otherData"]["bubble"].get<double>() == Approx(bubble(timeline)));
    CHECK(contains(to_svg(timeline), "measured: bubble "));
}

}  // namespace

TEST_CASE("The timeline of a step has every action of every stage, as it was done") {
    RunSpec spec = models().front().spec;
    spec.parallel.pipeline = 2;
    spec.parallel.tensor = session().size() == 8 ? 2 : 1;
    spec.parallel.data = session().size() / (2 * spec.parallel.tensor);
    spec.parallel.schedule = ScheduleKind::one_f_one_b;
    for (const bool zero_bubble : {false, true}) {
        if (zero_bubble) spec.parallel.schedule = ScheduleKind::zero_bubble;
        spec.parallel.virtual_stages = zero_bubble ? 2 : 1;
        const MeshShape mesh = shape_of(spec);
        const RunPlan plan = make_plan(spec, {.world_size = session().size()});
        const Timeline timeline = measure(spec, mesh);
        if (session().rank() != 0) continue;
        const Pipeline pipeline =
            make_pipeline(pipeline_of(plan, plan.microbatches(plan.batch.global_batch_size)));
        CHECK(timeline.chunks == spec.parallel.virtual_stages);
        check_lists(timeline, pipeline);
        check_messages(timeline, pipeline);
        if (mesh.data > 1) check_overlap(timeline);
        check_files(timeline);
        CHECK(bubble(timeline) > 0);
    }
}

}  // namespace gptrain::test
