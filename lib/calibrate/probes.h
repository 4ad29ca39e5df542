// The small models whose steps are timed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/run_spec.h"

namespace gptrain {

/// A model of two layers (in FP8: three), and how it is trained.
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
std::span<const Probe> cpu_probes();

/// Models between 0.1 and 1.3 billion parameters, with four to sixteen thousand tokens at a time:
/// small ones would show how fast the host issues ops. `fp8`: also in fp8.
std::vector<Probe> gpu_probes(bool fp8);

/// The run that trains it; the global batch size is left open.
RunSpec spec_of(const Probe& probe);

}  // namespace gptrain
