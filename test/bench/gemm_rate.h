// The speed of oneDNN's own GEMM.
#pragma once

#include <functional>
#include <vector>

#include "spec/run_spec.h"

namespace gptrain::bench {

/// GEMMs [1024, 768] x [768, 3072] with fp32 output, on all threads. They take turns with what is
/// compared with them, because the speed of a shared machine changes within seconds.
class GemmRate {
public:
    /// In fp32 if oneDNN has none of this precision here.
    explicit GemmRate(Precision precision);
    /// True if the GEMMs have the precision that was asked for.
    bool has_precision() const { return has_precision_; }
    /// Times some GEMMs, of about 0.1 TFLOP together.
    void run();
    /// The median.
    double gflops() const;

private:
    std::function<void()> gemm_;
    bool has_precision_;
    std::vector<double> seconds_;
};

}  // namespace gptrain::bench
