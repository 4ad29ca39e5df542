#include "planner/megatron.h"

#include <cmath>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "cuda/needs.h"
#include "hardware/load_profile.h"
#include "planner/mesh_cost.h"

namespace gptrain::test {
namespace {

using Kind = TraceEvent::Kind;

/// Megatron-LM of 2021: GEMMs do not sum weight gradients, and no message of tp is overlapped.
/// Korthikanti et al. and Qi et al. have later versions.
bool is_first(const PublishedRun& run) {
    return is_from(run, "narayanan");
}

/// Megatron-Core of 2024: fused attention, and all messages overlapped.
bool is_core(const PublishedRun& run) {
    return is_from(run, "megatron-core");
}

/// Traffic of an op of this program as several kernels of Megatron-LM, relative to its own.
double kernel_traffic(std::string_view op) {
    // The norm, dropout with the residual sum, and the bias are separate kernels.
    if (op == "residual_norm_backward") return 2;
    // 52 bytes a logit: fp32 copy, maximum, difference, exponential, sum, quotient, gradient and
    // cast each read and write it.
    if (op == "cross_entropy") return 13;
    if (op.starts_with("vocab_parallel")) return 6.5;
    // 64 bytes a parameter: gradients are copied, checked and clipped, weights copied.
    if (op == "adamw") return 1.9;
    return 1;
}

/// Messages of tp that GEMMs wait for are cut in so many parts, of which one is exposed and the
/// others overlap with GEMMs (--tp-comm-overlap; num_splits in TransformerEngine's initialize_ub).
constexpr double tensor_splits = 4;

OpWork traffic(double bytes) {
    return {.name = "elementwise", .bytes = bytes};
}

double product_of(std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b);
}

OpWork gemm(std::int64_t rows, std::int64_t cols, std::int64_t length, double bytes) {
    return {.kind = OpWork::Kind::gemm,
            .dtype = DType::bf16,
            .name = "linear_forward",
            .rows = rows,
            .cols = cols,
            .length = length,
            .flops = 2 * product_of(rows, cols) * static_cast<double>(length),
            .bytes = bytes};
}

/// Rewrites the trace of a stage.
class Rewriter {
public:
    Rewriter(const StepTrace& stage, const PublishedRun& run, double slowdown)
        : run_(run), trace_(stage), slowdown_(slowdown), heads_(run.heads / run.mesh.tensor) {}

    StepTrace rewrite() {
        // NCCL sums its 16-bit gradients in a ring. This program exchanges them and sums in fp32.
        for (TraceMessage& message : trace_.messages) {
            const bool exchanges = is_first(run_) && message.operation == "all_to_all";
            if (exchanges) message.operation = "reduce_scatter";
        }
        for (std::size_t i = 0; i < trace_.bodies.size(); ++i) {
            const std::vector<TraceEvent> events = std::exchange(trace_.bodies[i], {});
            body_ = &trace_.bodies[i];
            recomputes_ = run_.recompute == Recompute::full && is_backward(i);
            for (std::size_t at = 0; at < events.size(); ++at) {
                const bool waited_for = at + 1 < events.size() && events[at + 1].kind == Kind::wait;
                rewrite(events[at], waited_for);
            }
        }
        return std::move(trace_);
    }

private:
    bool is_backward(std::size_t body) const {
        for (const StepTrace::Part& part : trace_.parts) {
            if (std::cmp_equal(part.body, body))
                return part.action && part.action->kind == ActionKind::backward;
        }
        return false;
    }

    void rewrite(const TraceEvent& event, bool waited_for) {
        const auto index = static_cast<std::size_t>(event.index);
        if (event.kind == Kind::op) {
            rewrite_op(OpWork(trace_.ops[index]));
        } else if (event.kind == Kind::message && waited_for && is_core(run_) &&
                   trace_.messages[index].axis == Axis::tp) {
            // The others take computing speed as long as they last.
            TraceMessage part = trace_.messages[index];
            const double cost = 1 / tensor_splits + (1 - 1 / tensor_splits) * slowdown_;
            part.bytes = static_cast<std::int64_t>(static_cast<double>(part.bytes) * cost);
            issue(part);
        } else {
            body_->push_back(event);
        }
    }

    void rewrite_op(OpWork op) {
        if (op.kind == OpWork::Kind::attention_forward && !is_core(run_))
            return attention_forward(sequences(op, 2));
        if (op.kind == OpWork::Kind::attention_backward && !is_core(run_))
            return attention_backward(sequences(op, 5));
        op.bytes *= kernel_traffic(op.name);
        op.gelu_bytes = op.gelu_gradient_bytes = 0;  // below
        compute(op);
        const double weights = product_of(op.rows, op.cols);
        const bool sums = op.name == "linear_weight_grad" && is_first(run_);
        // Both the sum and the gradient have 16 bits.
        if (sums) compute(traffic(6 * weights));
        if (!is_fc1(op)) return;
        const double activations = 2 * product_of(op.rows, op.cols);
        if (op.name == "linear_input_grad") compute(traffic(3 * activations));
        if (op.name != "linear_forward") return;
        compute(traffic(2 * activations));
        if (recomputes_) fc2_forward(op.rows);
    }

    /// The GEMM before the activation function, or the one that computes its gradient. This program
    /// does that function in the same op.
    bool is_fc1(const OpWork& op) const {
        return op.kind == OpWork::Kind::gemm && op.cols == 4 * run_.hidden / run_.mesh.tensor &&
               op.length == run_.hidden;
    }

    /// The last product of a block, which this program does not recompute.
    void fc2_forward(std::int64_t tokens) {
        const std::int64_t width = 4 * run_.hidden / run_.mesh.tensor;
        const double output = product_of(tokens, run_.hidden);
        compute(gemm(tokens, run_.hidden, width,
                     2 * (output + product_of(tokens + run_.hidden, width))));
        if (run_.mesh.tensor > 1) all_reduce(2 * tokens * run_.hidden);
    }

    // Attention that writes its scores.

    /// Sequences of an op with so many GEMMs.
    std::int64_t sequences(const OpWork& op, int gemms) const {
        const double pairs = product_of(run_.sequence, run_.sequence + 1) / 2;
        return std::llround(op.flops / (2 * gemms * pairs * product_of(heads_, head_dim())));
    }

    void attention_forward(std::int64_t sequences) {
        const std::int64_t rows = sequences * heads_ * run_.sequence;
        const double scores = 2 * product_of(rows, run_.sequence);
        const double output = 2 * product_of(rows, head_dim());
        compute(gemm(rows, run_.sequence, head_dim(), scores + 2 * output));
        compute(traffic(1.5 * scores));  // softmax of half of them
        compute(traffic(2.5 * scores));  // dropout, with a mask of bytes
        compute(gemm(rows, head_dim(), run_.sequence, scores + 2 * output));
        compute(traffic(2 * output));  // heads side by side
    }

    void attention_backward(std::int64_t sequences) {
        if (run_.recompute == Recompute::selective) attention_forward(sequences);
        const std::int64_t rows = sequences * heads_ * run_.sequence;
        const double scores = 2 * product_of(rows, run_.sequence);
        const double output = 2 * product_of(rows, head_dim());
        compute(gemm(rows, run_.sequence, head_dim(), scores + 2 * output));
        for (int i = 0; i < 3; ++i)
            compute(gemm(rows, head_dim(), run_.sequence, scores + 2 * output));
        compute(traffic(2 * scores));    // softmax
        compute(traffic(2.5 * scores));  // dropout
        compute(traffic(8 * output));    // heads side by side, of four gradients
    }

    void compute(const OpWork& op) {
        body_->push_back({Kind::op, narrow<std::int32_t>(std::ssize(trace_.ops)), 0});
        trace_.ops.push_back(op);
    }

    void issue(const TraceMessage& message) {
        body_->push_back({Kind::message, narrow<std::int32_t>(std::ssize(trace_.messages)), 0});
        trace_.messages.push_back(message);
    }

    /// A sum over tp of a tensor with so many bytes.
    void all_reduce(std::int64_t bytes) {
        for (const TraceMessage& known : trace_.messages) {
            if (known.axis != Axis::tp || known.operation != "all_reduce") continue;
            TraceMessage sum = known;
            sum.bytes = 2 * bytes / run_.mesh.tensor * (run_.mesh.tensor - 1);
            issue(sum);
            body_->push_back({Kind::wait, sum.communicator, 0});
            return;
        }
    }

    std::int64_t head_dim() const { return run_.hidden / run_.heads; }

    const PublishedRun& run_;
    StepTrace trace_;
    double slowdown_;     ///< by a message in flight
    std::int64_t heads_;  ///< of a rank
    bool recomputes_ = false;
    std::vector<TraceEvent>* body_ = nullptr;
};

}  // namespace

namespace {

/// Devices with what all versions of Megatron-LM have: its messages have other streams and another
/// order than this program's, and thread blocks as NCCL chooses them: 24 (NVIDIA/nccl issue 1161,
/// NVIDIA/nccl-tests issue 100).
HardwareProfile megatron_hardware(const std::string& profile, double slowdown) {
    HardwareProfile hardware = load_profile(profile);
    hardware.software.in_order = false;
    hardware.software.slowdown = slowdown;
    hardware.node.link.block_bandwidth = 0;
    hardware.device.message_issue_seconds = 0;
    return hardware;
}

}  // namespace

HardwareProfile core_hardware() {
    HardwareProfile hardware = megatron_hardware("h100-sxm", 0.18);
    // FlashAttention 3 (configs/hardware); the profile has this program's slower kernel.
    hardware.device.attention.back().backward = 470e12;
    return hardware;
}

HardwareProfile hardware_of(const PublishedRun& run) {
    if (is_core(run)) {
        HardwareProfile hardware = core_hardware();
        // SemiAnalysis, "H100 vs GB200 NVL72 Training Benchmarks": in 2024, software alone took
        // GPT-3 175B in bf16 on the same H100s from 34 % MFU in January to 54 % in December. That
        // is 45 % in July, when the runs were published.
        hardware.software.speed = 45.0 / 54;
        return hardware;
    }
    HardwareProfile hardware = megatron_hardware("a100-80gb", 0.22);
    hardware.software.overlap_grads = false;
    hardware.software.overlap_boundary = false;
    hardware.software.overlap_tensor = !is_first(run);
    return hardware;
}

StepTime published_step(const PublishedRun& run, const HardwareProfile& hardware) {
    const RunPlan plan = plan_of(run);
    PipelineTraces pipeline = {.mesh = plan.mesh,
                               .chunks = plan.virtual_stages,
                               .stages = trace_stages(plan, cuda::backend_memory())};
    for (StepTrace& stage : pipeline.stages)
        stage = Rewriter(stage, run, hardware.software.slowdown).rewrite();
    return time_step(pipeline, hardware);
}

}  // namespace gptrain::test
