#include "calibrate/measure_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "base/error.h"
#include "calibrate/probe_run.h"
#include "calibrate/samples.h"
#include "hardware/measured_time.h"
#include "hardware/op_time.h"

namespace gptrain {
namespace {

/// The times of equal ops of all steps, as measurements. Ops other than GEMMs and attention do not
/// record their precision; they are taken only `with_others`.
std::vector<MeasuredOp> measured_ops(const std::vector<OpTimer::TimedOp>& timed,
                                     std::int64_t threads, bool with_others) {
    using Key =
        std::tuple<std::string_view, DType, std::int64_t, std::int64_t, std::int64_t, double>;
    std::map<Key, std::pair<OpWork, std::vector<double>>> distinct;
    for (const auto& [work, seconds] : timed) {
        if (work.bytes == 0 || (work.flops == 0 && !with_others)) continue;
        auto& [same, repeats] =
            distinct[{work.name, work.dtype, work.rows, work.cols, work.length, work.bytes}];
        same = work;
        repeats.push_back(seconds);
    }
    std::vector<MeasuredOp> measured;
    for (const auto& [key, op] : distinct) {
        const auto& [work, repeats] = op;
        const auto [seconds, spread] = summary(repeats);
        measured.push_back({.op = std::string(work.name),
                            .precision = precision_of(work.dtype),
                            .threads = threads,
                            .rows = work.rows,
                            .cols = work.cols,
                            .length = work.length,
                            .head_dim = work.head_dim,
                            .flops = work.flops,
                            .bytes = work.bytes,
                            .seconds = seconds,
                            .spread = spread});
    }
    return measured;
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

/// The standard deviation of normal numbers whose largest of `ranks` exceeds their mean by this
/// much on average.
double spread_of(const std::vector<double>& excess, int ranks) {
    if (excess.empty()) return 0;
    const double mean =
        std::accumulate(excess.begin(), excess.end(), 0.0) / static_cast<double>(excess.size());
    return mean / (slowest(1, ranks) - 1);
}

/// The spreads of the ranks' speeds, from steps that all of them compute at the same time.
class RankSpreads {
public:
    explicit RankSpreads(const MpiSession& session) : session_(session) {}

    /// All ranks call it.
    void add(const std::vector<OpTimer::TimedOp>& ops) {
        std::vector<double> seconds;
        for (const OpTimer::TimedOp& op : ops)
            seconds.push_back(op.seconds);
        GPTRAIN_CHECK(seconds.size() % timed_steps == 0, seconds.size(), " ops");
        const auto ranks = of_all_ranks(session_, seconds);
        after_steps_.push_back(excess(ranks, seconds.size() / timed_steps));
        after_ops_.push_back(excess(ranks, 1));
    }
    double of_ranks() const { return spread_of(after_steps_, session_.size()); }
    /// The additional spread from op to op.
    double of_ops() const {
        const double ranks = of_ranks();
        const double ops = spread_of(after_ops_, session_.size());
        return std::sqrt(std::max(0.0, ops * ops - ranks * ranks));
    }

private:
    const MpiSession& session_;
    std::vector<double> after_steps_;
    std::vector<double> after_ops_;
};

/// The summary of the probes' times; 0 if there are none.
double usual(const std::vector<double>& seconds) {
    return seconds.empty() ? 0 : summary(seconds).seconds;
}

}  // namespace

OpTimes measure_ops(const MpiSession& session, const MeasuredDevices& devices,
                    std::span<const Probe> probes) {
    int threads = devices.threads;
    const Mesh all = devices.connect(devices.backend(threads), {.data = session.size()},
                                     connections_of({Axis::dp_cp}));
    OpTimes times;
    RankSpreads spreads(session);
    std::vector<double> issue_seconds;
    std::vector<double> gap_seconds;
    for (int active = session.size(); active > 0 && threads <= devices.max_threads; active /= 2) {
        const bool together = active == session.size();
        for (const Probe& probe : probes) {
            const bool runs = probe.split() ? together && active % 2 == 0 : session.rank() < active;
            if (!runs) continue;
            const auto probe_times = run_probe(probe, threads, session, devices);
            if (!probe_times) continue;
            const bool with_others = probe.precision == probes.front().precision;
            const auto measured = measured_ops(probe_times->ops, threads, with_others);
            times.ops.insert(times.ops.end(), measured.begin(), measured.end());
            if (probe.split()) continue;
            issue_seconds.push_back(probe_times->issue_seconds);
            gap_seconds.push_back(probe_times->gap_seconds);
            if (together && active > 1) spreads.add(probe_times->ops);
        }
        all.dp_cp().barrier();
        threads *= 2;
    }
    times.rank_spread = spreads.of_ranks();
    times.op_spread = spreads.of_ops();
    times.issue_seconds = usual(issue_seconds);
    times.gap_seconds = usual(gap_seconds);
    return times;
}

}  // namespace gptrain
