// The times of ops, measured in training steps of small models.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "comm/mpi_session.h"
#include "hardware/profile.h"

namespace gptrain {

/// Makes a backend whose ops use this number of threads from now on.
using MakeBackend = std::function<std::unique_ptr<Backend>(int threads)>;

/// A model of two layers, and how it is trained.
struct Probe {
    std::int64_t hidden = 0;
    std::int64_t heads = 0;
    std::int64_t vocab = 0;
    std::int64_t seq_length = 0;
    std::int64_t sequences = 0;  ///< of a microbatch
    bool llama = false;          ///< rope, rmsnorm and swiglu
    Precision precision = Precision::fp32;
    std::int64_t tensor = 1;
    std::int64_t context = 1;

    /// True if several ranks share one model; else each has its own.
    bool split() const { return tensor * context > 1; }
};

/// Models between 1 and 50 million parameters, with a hundred to two thousand tokens at a time.
std::span<const Probe> standard_probes();

struct OpTimes {
    std::vector<MeasuredOp> ops;  ///< as this rank measured them
    /// As DeviceProfile.spread and op_spread: from the slowest rank and the mean of the ranks in
    /// each timed step that all of them computed at the same time, and in each op of it. 0 for a
    /// single rank. Equal on all ranks.
    double rank_spread = 0;
    double op_spread = 0;
};

/// Runs steps of the probes and times each of their ops: on all ranks at a time with
/// `threads` threads each, which must be all cores; then on half the ranks with twice as many
/// threads, and so on up to one rank, or to `max_threads` threads. Split probes run once, on all
/// ranks, if their number is even. All ranks call it together.
OpTimes measure_ops(const MpiSession& session, const MakeBackend& make,
                    std::span<const Probe> probes, int threads, int max_threads);

}  // namespace gptrain
