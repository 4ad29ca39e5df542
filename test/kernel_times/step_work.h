// The work of a step of a model on one GPU, as the meter sees it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hardware/op_work.h"
#include "spec/run_plan.h"

namespace gptrain::test {

/// A model and its batch: one microbatch, and nothing recomputed.
struct ModelSize {
    std::string_view name;
    std::int64_t layers, hidden, heads, length, sequences;

    std::int64_t head_dim() const { return hidden / heads; }
    double tokens() const { return static_cast<double>(sequences * length); }
    /// Of all layers.
    double all_heads() const { return static_cast<double>(layers * heads * sequences); }
    std::string head_size() const;
};

constexpr ModelSize sizes[] = {
    {"124M, 64 x 1024", 12, 768, 12, 1024, 64},
    {"1.5B, 16 x 1024", 48, 1600, 25, 1024, 16},
    {"6.7B, 2 x 2048", 32, 4096, 32, 2048, 2},
};

/// An op and how often it runs in a step.
struct CountedOp {
    OpWork op;
    double count = 0;
};

class StepWork {
public:
    explicit StepWork(const ModelSize& size);

    const RunPlan& plan() const { return plan_; }
    const std::vector<CountedOp>& ops() const { return ops_; }
    /// Bytes of all ops of this name.
    double bytes(std::string_view name) const;
    /// Such bytes of all ops. (Those of GELU' leave out the GEMM's sums, which stay in L2.)
    double total(double OpWork::*bytes) const;

private:
    RunPlan plan_;
    std::vector<CountedOp> ops_;
};

/// Whether an op is a GEMM of the head.
bool is_of_head(const OpWork& op, const RunPlan& plan);

}  // namespace gptrain::test
