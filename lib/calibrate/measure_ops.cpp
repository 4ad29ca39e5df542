#include "calibrate/measure_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>

#include "base/error.h"
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
/// seconds of each op of the timed steps, in their order; all steps have the same ops.
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
    for (batch.step = 1; batch.step <= timed_steps + 1; ++batch.step) {
        timer.time(batch.step > 1);
        engine.step(batch);
        engine.read_state();
    }
    for (const OpTimer::Timed& timed : timer.ops()) {
        // Ops other than GEMMs and attention do not tell their precision.
        const bool any = timed.work.flops == 0;
        if (timed.work.bytes == 0 || (any && probe.precision != Precision::fp32)) continue;
        measured.push_back(measured_op(timed, probe.precision, threads));
    }
    return timer.seconds();
}

/// The values of all ranks, which have as many each. All ranks call it.
std::vector<std::vector<double>> of_all_ranks(const MpiSession& session,
                                              const std::vector<double>& values) {
    const std::size_t bytes = values.size() * sizeof(double);
    std::vector<std::vector<double>> ranks;
    for (const std::string& text :
         session.exchange({reinterpret_cast<const char*>(values.data()), bytes})) {
        GPTRAIN_CHECK(text.size() == bytes, text.size(), " bytes instead of ", bytes);
        ranks.emplace_back(values.size());
        std::memcpy(ranks.back().data(), text.data(), bytes);
    }
    return ranks;
}

/// How much longer than the mean of the ranks it takes if they wait for the slowest after every
/// `ops` ops, relative to that mean. `ranks`: seconds of the ops of each.
double excess(const std::vector<std::vector<double>>& ranks, std::size_t ops) {
    double slowest = 0;
    double sum = 0;
    for (std::size_t first = 0; first < ranks.front().size(); first += ops) {
        double most = 0;
        for (const std::vector<double>& rank : ranks) {
            const double* begin = rank.data() + first;
            const double seconds = std::accumulate(begin, begin + ops, 0.0);
            most = std::max(most, seconds);
            sum += seconds;
        }
        slowest += most;
    }
    return slowest * static_cast<double>(ranks.size()) / sum - 1;
}

/// The standard deviation of normal numbers whose largest of `ranks` exceeds their mean by so much
/// on average.
double spread_of(const std::vector<double>& excess, int ranks) {
    if (excess.empty()) return 0;
    const double mean =
        std::accumulate(excess.begin(), excess.end(), 0.0) / static_cast<double>(excess.size());
    return mean / (slowest(1, ranks) - 1);
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
    std::vector<double> after_steps;
    std::vector<double> after_ops;
    for (int active = session.size(); active > 0 && threads <= max_threads; active /= 2) {
        const bool together = active == session.size();
        for (const Probe& probe : probes) {
            const bool runs = probe.split() ? together && active % 2 == 0 : session.rank() < active;
            if (!runs) continue;
            const auto seconds = run(probe, threads, session, make, times.ops);
            if (!together || active == 1 || probe.split()) continue;
            GPTRAIN_CHECK(seconds.size() % timed_steps == 0, seconds.size(), " ops");
            const auto ranks = of_all_ranks(session, seconds);
            after_steps.push_back(excess(ranks, seconds.size() / timed_steps));
            after_ops.push_back(excess(ranks, 1));
        }
        if (all) all->barrier();
        threads *= 2;
    }
    times.rank_spread = spread_of(after_steps, session.size());
    const double of_ops = spread_of(after_ops, session.size());
    times.op_spread =
        std::sqrt(std::max(0.0, of_ops * of_ops - times.rank_spread * times.rank_spread));
    return times;
}

}  // namespace gptrain
