// Whole optimizer steps of the GPT-2 124M shape in fp32 on the CPU backend, split among the ranks
// that a launcher started: 32 sequences of 64 tokens per step, in microbatches of 4.
//
//   bench_parallel dp|tp|pp|none STEPS [TIMELINE]
//
// Rank 0 prints one JSON object: axis, ranks, threads per rank, seconds (of each of STEPS steps
// after one warmup step), comm (as in metrics.jsonl), bubble (pp: simulated from the stages'
// FLOPs). TIMELINE (.svg): where to draw the last step.
#include <omp.h>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "base/output_file.h"
#include "calibrate/made_up_batch.h"
#include "comm/mpi_mesh.h"
#include "cpu/cpu_backend.h"
#include "cpu_step.h"
#include "engine/engine.h"
#include "engine/measure.h"
#include "metrics/comm_metrics.h"
#include "planner/flop_costs.h"
#include "planner/step_recorder.h"
#include "schedule/stage_plan.h"
#include "spec/make_plan.h"
#include "timing.h"

using namespace gptrain;

namespace {

struct Options {
    std::string axis;
    std::int64_t steps = 0;
    std::string timeline;
};

RunSpec spec_of(const std::string& axis, std::int64_t ranks) {
    constexpr std::int64_t sequences = 32;
    RunSpec spec = bench::gpt2_124m(4, 64, Precision::fp32);
    spec.training.global_batch_size = sequences;
    if (axis == "tp") spec.parallel.tensor = ranks;
    if (axis == "pp") spec.parallel.pipeline = ranks;
    return spec;
}

double simulated_bubble(const RunPlan& plan) {
    const std::int64_t microbatches = plan.microbatches(plan.batch.global_batch_size);
    return bubble(simulate(make_pipeline(pipeline_of(plan, microbatches)), flop_costs(plan)));
}

Json to_json(const std::vector<CommMetric>& metrics) {
    Json json = Json::object();
    for (const CommMetric& metric : metrics) {
        json[std::string(metric.axis)] = {{"bytes", metric.bytes},
                                          {"seconds", metric.seconds.value()}};
    }
    return json;
}

StepRecorder drawer(const Options& options, const MeshShape& mesh, const MpiSession& session) {
    return StepRecorder(options.steps + 1, [&, mesh](const StepRecord& record) {
        Timeline timeline = gather_timeline(record, mesh, session);
        timeline.title = text("GPT-2 124M, ", options.axis);
        if (session.rank() == 0) write_output_file(options.timeline, to_svg(timeline));
    });
}

Json measure(const Options& options, const MpiSession& session) {
    const RunSpec spec = spec_of(options.axis, session.size());
    const RunPlan plan = make_plan(spec, {.world_size = session.size()});
    const auto backend = cpu::make_backend();
    CommTotals totals;
    CommListeners listeners;
    listeners.add(totals);
    std::optional<StepRecorder> recorder;
    if (!options.timeline.empty()) {
        recorder.emplace(drawer(options, plan.mesh, session));
        listeners.add(*recorder);
    }
    const Mesh mesh = session.running() ? mpi_mesh(session, plan.mesh, mesh_connections(plan),
                                                   *backend, &listeners)
                                        : one_rank_mesh();
    const StepCost cost = measure_run(plan, mesh.place(), memory_of(*backend));
    Engine engine(*backend, mesh, plan, cost.memory);
    if (recorder) engine.listen(*recorder);
    engine.initialise();
    StepBatch batch = made_up_batch(plan, mesh.place().dp);
    CommMetrics comm(plan.mesh, true);
    std::vector<double> seconds;
    for (batch.step = 1; batch.step <= options.steps + 1; ++batch.step) {
        totals.clear();
        const double elapsed = bench::seconds_of([&] {
            engine.step(batch);
            engine.read_state();
        });
        if (batch.step == 1) continue;
        seconds.push_back(elapsed);
        comm.add_step(totals.by_axis());
    }
    return {{"axis", options.axis},
            {"ranks", session.size()},
            {"threads", omp_get_max_threads()},
            {"seconds", seconds},
            {"comm", to_json(comm.take(session))},
            {"bubble", simulated_bubble(plan)}};
}

std::optional<Options> options_of(const std::vector<std::string>& words) {
    if (words.size() != 2 && words.size() != 3) return std::nullopt;
    const auto steps = parse_int(words[1]);
    const bool known =
        words[0] == "none" || words[0] == "dp" || words[0] == "tp" || words[0] == "pp";
    if (!known || !steps || *steps < 1) return std::nullopt;
    return Options{words[0], *steps, words.size() == 3 ? words[2] : ""};
}

}  // namespace

int main(int argc, char** argv) {
    const auto options = options_of({argv + 1, argv + argc});
    if (!options) {
        warn("usage: bench_parallel dp|tp|pp|none STEPS [TIMELINE]");
        return 2;
    }
    const MpiSession session;
    try {
        const Json result = measure(*options, session);
        if (session.rank() == 0) print(to_line(result));
    } catch (const Error& error) {
        error_line("bench_parallel", error.what());
        session.abort_all(error.code());
    }
    return 0;
}
