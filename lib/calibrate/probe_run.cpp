#include "calibrate/probe_run.h"

#include <algorithm>
#include <numeric>

#include "base/log.h"
#include "calibrate/made_up_batch.h"
#include "calibrate/samples.h"
#include "calibrate/tuning.h"
#include "engine/engine.h"
#include "engine/measure.h"
#include "engine/memory_check.h"
#include "spec/make_plan.h"

namespace gptrain {
namespace {

/// Under load a GPU takes about a second to settle at its clock rate.
constexpr double device_warmup_seconds = 1;

/// Steps of one probe on this rank.
class ProbeRun {
public:
    ProbeRun(const RunPlan& plan, const Mesh& mesh, const MemoryPlan& memory, Backend& backend)
        : timer_(backend),
          engine_(timer_, mesh, plan, memory),
          batch_(made_up_batch(plan, mesh.place().dp)) {
        engine_.initialise();
    }

    void step() {
        issue_step();
        engine_.read_state();
    }
    /// The ops of a step.
    std::vector<OpTimer::TimedOp> time_ops() {
        timer_.time(true);
        step();
        timer_.time(false);
        return timer_.take();
    }
    /// Seconds that a step takes the device, and the host to issue it.
    struct StepTimes {
        double device = 0;
        double host = 0;
    };
    StepTimes time_step() {
        const std::unique_ptr<Stopwatch> device = timer_.stopwatch();
        device->lap();
        const double host = seconds_of([&] { issue_step(); });
        device->lap();
        return {.device = device->take_laps().front(), .host = host};
    }

private:
    void issue_step() {
        ++batch_.step;
        engine_.step(batch_);
    }

    OpTimer timer_;
    Engine engine_;
    StepBatch batch_;
};

ProbeTimes time_steps(ProbeRun& run, bool on_host, const MpiSession& session) {
    run.step();
    if (!on_host) {
        const auto start = std::chrono::steady_clock::now();
        while (session.max(seconds_since(start) < device_warmup_seconds ? 1 : 0) > 0)
            run.step();
    }
    ProbeTimes times;
    for (int i = 0; i < timed_steps; ++i) {
        const auto ops = run.time_ops();
        times.ops.insert(times.ops.end(), ops.begin(), ops.end());
    }
    if (on_host) return times;
    std::vector<double> device;
    std::vector<double> host;
    for (int i = 0; i < timed_steps; ++i) {
        const ProbeRun::StepTimes step = run.time_step();
        device.push_back(step.device);
        host.push_back(step.host);
    }
    const double in_ops =
        std::accumulate(times.ops.begin(), times.ops.end(), 0.0,
                        [](double sum, const OpTimer::TimedOp& op) { return sum + op.seconds; });
    const double ops_of_step = static_cast<double>(times.ops.size()) / timed_steps;
    times.issue_seconds = summary(host).seconds / ops_of_step;
    times.gap_seconds = std::max(0.0, summary(device).seconds - in_ops / timed_steps) / ops_of_step;
    return times;
}

}  // namespace

std::optional<ProbeTimes> run_probe(const Probe& probe, int threads, const MpiSession& session,
                                    const MeasuredDevices& devices) {
    RunSpec spec = spec_of(probe);
    const std::int64_t ranks = probe.split() ? session.size() : 1;
    const std::int64_t data_ranks = ranks / (probe.tensor * probe.context);
    spec.training.global_batch_size = 2 * probe.sequences * data_ranks;
    const RunPlan plan =
        make_plan(spec, {.world_size = ranks, .cuda = devices.kind == DeviceChoice::cuda});
    Backend& backend = devices.backend(threads);
    const Mesh mesh = probe.split() ? devices.connect(backend, plan.mesh, mesh_connections(plan))
                                    : one_rank_mesh();
    const StepCost cost = measure_run(plan, mesh.place(), memory_of(backend));
    // On a host, ranks that have been left out do not take part, and the probes are small.
    const bool on_host = backend.is_host();
    if (!on_host) {
        const auto shortage = MemoryCheck(backend, session).find_shortage(cost.memory);
        if (shortage) {
            if (session.rank() == 0)
                warn("--calibrate leaves out a model of width ", probe.hidden,
                     ", for which memory is short");
            return std::nullopt;
        }
        prepare_linear_ops(backend, cost.linear_ops, op_limits(plan), session, [] {});
    }
    return or_abort(mesh, [&] {
        ProbeRun run(plan, mesh, cost.memory, backend);
        return time_steps(run, on_host, session);
    });
}

}  // namespace gptrain
