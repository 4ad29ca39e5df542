#include "calibrate/measure_ops.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>

#include "calibrate/made_up_batch.h"
#include "calibrate/op_timer.h"
#include "comm/mpi_mesh.h"
#include "engine/engine.h"
#include "engine/measure.h"
#include "hardware/op_time.h"
#include "spec/make_plan.h"

namespace gptrain {
namespace {

constexpr int timed_steps = 4;  ///< after one that is not

constexpr Probe probes_of_all_sizes[] = {
    {.hidden = 128, .heads = 4, .vocab = 1024, .seq_length = 128, .sequences = 1},
    {.hidden = 128, .heads = 2, .vocab = 2048, .seq_length = 64, .sequences = 16},
    {.hidden = 256, .heads = 4, .vocab = 8192, .seq_length = 256, .sequences = 1},
    {.hidden = 256, .heads = 8, .vocab = 2048, .seq_length = 128, .sequences = 16},
    {.hidden = 512, .heads = 8, .vocab = 8192, .seq_length = 256, .sequences = 2},
    {.hidden = 512, .heads = 4, .vocab = 2048, .seq_length = 1024, .sequences = 1, .llama = true},
    {.hidden = 1024, .heads = 16, .vocab = 16384, .seq_length = 128, .sequences = 2},
    {.hidden = 256,
     .heads = 4,
     .vocab = 4096,
     .seq_length = 256,
     .sequences = 2,
     .precision = Precision::bf16},
    {.hidden = 768,
     .heads = 12,
     .vocab = 8192,
     .seq_length = 256,
     .sequences = 1,
     .precision = Precision::bf16},
    // The ops that only ranks have which share a model.
    {.hidden = 256, .heads = 4, .vocab = 2048, .seq_length = 128, .sequences = 1, .tensor = 2},
    {.hidden = 512, .heads = 8, .vocab = 8192, .seq_length = 256, .sequences = 2, .tensor = 2},
    {.hidden = 256, .heads = 4, .vocab = 2048, .seq_length = 128, .sequences = 1, .context = 2},
    {.hidden = 512, .heads = 8, .vocab = 8192, .seq_length = 256, .sequences = 2, .context = 2},
};

RunSpec spec_of(const Probe& probe) {
    RunSpec spec;
    spec.name = "calibrate";
    spec.model.num_layers = 2;
    spec.model.hidden_size = probe.hidden;
    spec.model.num_attention_heads = probe.heads;
    spec.model.vocab_size = probe.vocab;
    if (probe.llama) {
        spec.model.position_embedding = PositionEmbedding::rope;
        spec.model.normalization = Normalization::rmsnorm;
        spec.model.activation = Activation::swiglu;
        spec.model.bias = false;
    }
    spec.training.seq_length = probe.seq_length;
    spec.training.micro_batch_size = probe.sequences;
    spec.training.steps = timed_steps + 1;
    spec.parallel.tensor = probe.tensor;
    spec.parallel.context = probe.context;
    spec.precision.compute = probe.precision;
    spec.checkpoint.async = false;
    return spec;
}

MeasuredOp measured_op(const OpTimer::Timed& timed, Precision precision, std::int64_t threads) {
    const auto [seconds, spread] = summary(timed.seconds);
    const OpWork& work = timed.work;
    return {.op = std::string(work.name),
            .precision = precision,
            .threads = threads,
            .rows = work.rows,
            .cols = work.cols,
            .length = work.length,
            .head_dim = work.head_dim,
            .flops = work.flops,
            .bytes = work.bytes,
            .seconds = seconds,
            .spread = spread};
}

/// Runs a probe on this rank alone, or on a mesh of all ranks if they share its model. Returns the
/// seconds of the ops of each timed step.
std::vector<double> run(const Probe& probe, int threads, const MpiSession& session,
                        const MakeBackend& make, std::vector<MeasuredOp>& measured) {
    RunSpec spec = spec_of(probe);
    const std::int64_t ranks = probe.split() ? session.size() : 1;
    const std::int64_t data_ranks = ranks / (probe.tensor * probe.context);
    spec.training.global_batch_size = 2 * probe.sequences * data_ranks;
    const RunPlan plan = make_plan(spec, {.world_size = ranks});
    const std::unique_ptr<Backend> backend = make(threads);
    OpTimer timer(*backend);
    const Mesh mesh = probe.split() ? mpi_mesh(session, plan.mesh, mesh_connections(plan), timer)
                                    : one_rank_mesh();
    const StepCost cost = measure_run(plan, mesh.place(), memory_of(timer));
    Engine engine(timer, mesh, plan, cost.memory);
    engine.initialise();
    StepBatch batch = made_up_batch(plan, mesh.place().dp);
    std::vector<double> steps;
    for (batch.step = 1; batch.step <= timed_steps + 1; ++batch.step) {
        const double before = timer.total();
        timer.time(batch.step > 1);
        engine.step(batch);
        engine.read_state();
        if (batch.step > 1) steps.push_back(timer.total() - before);
    }
    for (const OpTimer::Timed& timed : timer.ops()) {
        // Ops other than GEMMs and attention do not tell their precision.
        const bool any = timed.work.flops == 0;
        if (timed.work.bytes == 0 || (any && probe.precision != Precision::fp32)) continue;
        measured.push_back(measured_op(timed, probe.precision, threads));
    }
    return steps;
}

/// By how much the slowest rank exceeded the mean of the ranks in each step, relative to the mean.
/// All ranks call it, with the seconds of their own steps.
void add_excess(const MpiSession& session, std::span<const double> steps,
                std::vector<double>& excess) {
    const auto parts = session.exchange(
        {reinterpret_cast<const char*>(steps.data()), steps.size() * sizeof(double)});
    for (std::size_t step = 0; step < steps.size(); ++step) {
        double slowest = 0;
        double sum = 0;
        for (const std::string& part : parts) {
            double seconds = 0;
            std::memcpy(&seconds, part.data() + step * sizeof(double), sizeof(double));
            slowest = std::max(slowest, seconds);
            sum += seconds;
        }
        excess.push_back(slowest * static_cast<double>(parts.size()) / sum - 1);
    }
}

/// The standard deviation of normal numbers whose largest of `ranks` exceeds their mean by so much
/// on average.
double spread_of(const std::vector<double>& excess, int ranks) {
    if (excess.empty()) return 0;
    DeviceProfile unit;
    unit.spread = 1;
    const double mean =
        std::accumulate(excess.begin(), excess.end(), 0.0) / static_cast<double>(excess.size());
    return mean / (slowest(unit, ranks) - 1);
}

}  // namespace

std::span<const Probe> standard_probes() {
    return probes_of_all_sizes;
}

OpTimes measure_ops(const MpiSession& session, const MakeBackend& make,
                    std::span<const Probe> probes, int threads, int max_threads) {
    const std::unique_ptr<Backend> idle = make(threads);
    std::optional<MpiCommunicator> all;
    if (session.running()) all.emplace(session, MpiGroup{0, session.rank()}, *idle);
    OpTimes times;
    std::vector<double> excess;
    for (int active = session.size(); active > 0 && threads <= max_threads; active /= 2) {
        const bool together = active == session.size();
        for (const Probe& probe : probes) {
            const bool runs = probe.split() ? together && active % 2 == 0 : session.rank() < active;
            if (!runs) continue;
            const auto steps = run(probe, threads, session, make, times.ops);
            if (together && active > 1 && !probe.split()) add_excess(session, steps, excess);
        }
        if (all) all->barrier();
        threads *= 2;
    }
    times.rank_spread = spread_of(excess, session.size());
    return times;
}

}  // namespace gptrain
