// What oneDNN's own GEMM reaches.
#pragma once

#include <optional>

#include "spec/run_spec.h"

namespace gptrain::bench {

/// GFLOP/s of a GEMM [1024, 768] x [768, 3072] with fp32 output, on all threads; nothing if oneDNN
/// has none of this precision here.
std::optional<double> gemm_rate(Precision precision);

}  // namespace gptrain::bench
