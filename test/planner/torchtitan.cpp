#include "planner/torchtitan.h"

#include <numeric>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "hardware/load_profile.h"

namespace gptrain::test {
namespace {

using Kind = TraceEvent::Kind;

// Constants of torchtitan's benchmarks/llama3_h100_202412_torchtitan.md and of the code of that
// month; none is fitted to a row.

/// Of the peak that large GEMMs reach on these H100s, whose power limit is 500 W in place of 700 W:
/// pytorch/ao, torchao/testing/float8/roofline_utils.py (c1fa6776), by the same team.
constexpr double gemm_share = 0.6;
/// With its efficiency and tiles the profile reaches so much on large shapes, at 700 W.
constexpr double profile_share = 720.0 / 989;
/// HBM2e in place of HBM3, and the share of it that large elementwise kernels reach: the same file.
constexpr double memory_bandwidth = 2.4e12;
constexpr double memory_share = 0.92;
/// FlashAttention 2, PyTorch's kernel for scaled_dot_product_attention: FlashAttention 3 is 1.5 to
/// 2.0 times as fast forward and 1.5 to 1.75 times backward (its paper, section 4.1), and reaches
/// 530 to 600 and 510 to 560 TFLOP/s at 700 W (configs/hardware/h100-sxm.yaml). The power limit
/// lowers its clock as that of GEMMs.
constexpr double clock_share = gemm_share / profile_share;
constexpr double attention_forward = clock_share * 565e12 / 1.75;
constexpr double attention_backward = clock_share * 535e12 / 1.625;
/// A message's thread blocks, as NCCL chooses them, of 132 multiprocessors (megatron.cpp).
constexpr double slowdown = 0.18;

/// Bytes that kernels read and write, relative to those of this program's op, which reads its
/// inputs and writes its outputs once.
struct KernelTraffic {
    double eager;
    double compiled;

    double of(bool is_compiled) const { return is_compiled ? compiled : eager; }
};

// The bytes are those of bf16 tensors; fp32 ones, which RMSNorm and RoPE compute with, have twice
// as many. Backward repeats what forward computed between the GEMMs, because selective
// recomputation keeps outputs of GEMMs and attention alone.

/// Eager: the residual sum (6 bytes an element), float (6), pow (8), mean (4), the product with the
/// root (8), type_as (6) and the product with the weight (4), in place of 8.
constexpr KernelTraffic norm_forward = {42.0 / 8, 1};
/// The same again, and eager: the gradients of the product with the weight (4 and 8), of type_as
/// (6), of the product with the root (8 and 16), of pow (24), their sum (12), that of float (6),
/// the sums with the gradient of the stream (6) and of the layers that read the norm, of which
/// there are three or two (9). Compiled: one kernel more that reads those three or two (3).
constexpr KernelTraffic norm_backward = {(42 + 99.0) / 8, (8 + 8 + 3.0) / 8};
/// silu (4) and a product (6), in place of 6 bytes.
constexpr KernelTraffic activation_forward = {10.0 / 6, 1};
/// The same again, two products (6 each) and silu's gradient (6), in place of 10 bytes; compiled
/// one kernel for all of it, which also writes what forward wrote (2).
constexpr KernelTraffic activation_backward = {28.0 / 10, 12.0 / 10};
/// A complex product, which torch.compile leaves as it is: float (6), the product (8), type_as (6).
/// In place of 4 bytes.
constexpr double rope = 20.0 / 4;
/// Of K and V, copied for each of the heads that share them, or summed over these: read and
/// written.
constexpr double repeated_kv = 4;
/// A logit: float (6), log_softmax, which reads three times and writes (16), nll_loss (4), the
/// gradient of log_softmax (16), bf16 again (6), in place of 4.
constexpr double cross_entropy = 48.0 / 4;
/// A parameter: AdamW of several kernels (84) and gradients that are scaled (8), in place of 30.
constexpr double adamw = 92.0 / 30;
/// Bytes for each one of a gathered weight: FSDP2 copies it out of the message.
constexpr double copied_out = 2;
/// Bytes for each one that a sum over ranks sends, in fp32: FSDP2 reads gradients in bf16 and
/// writes them in fp32 into the message.
constexpr double copied_in = 1.5;

OpWork elementwise(double bytes) {
    return {.name = "elementwise", .bytes = bytes};
}

class BlockRewriter {
public:
    BlockRewriter(StepTrace step, const RunPlan& plan, bool compiled)
        : trace_(std::move(step)),
          plan_(plan),
          tokens_(plan.micro_batch_size * plan.seq_length),
          compiled_(compiled) {}

    StepTrace rewrite() {
        for (std::size_t i = 0; i < trace_.bodies.size(); ++i) {
            const std::vector<TraceEvent> events = std::exchange(trace_.bodies[i], {});
            body_ = &trace_.bodies[i];
            backward_ = is_backward(i);
            for (const TraceEvent& event : events)
                rewrite(event);
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

    void rewrite(const TraceEvent& event) {
        if (event.kind == Kind::op)
            return rewrite_op(trace_.ops[static_cast<std::size_t>(event.index)]);
        body_->push_back(event);
        if (event.kind != Kind::message) return;
        const TraceMessage& message = trace_.messages[static_cast<std::size_t>(event.index)];
        const auto sent = static_cast<double>(message.bytes);
        const auto ranks = static_cast<double>(plan_.mesh.data);
        if (message.operation == "all_gather")
            compute(elementwise(copied_out * sent * ranks / (ranks - 1)));
        if (message.operation == "reduce_scatter") compute(elementwise(copied_in * sent));
    }

    void rewrite_op(OpWork op) {
        if (op.kind == OpWork::Kind::gemm) return compute_apart(op);
        const std::string_view name = op.name;
        if (name == "residual_norm_forward") op.bytes *= norm_forward.of(compiled_);
        if (name == "residual_norm_backward") op.bytes *= norm_backward.of(compiled_);
        if (name == "activation_forward") op.bytes *= activation_forward.of(compiled_);
        if (name == "activation_backward") {
            recompute_gemms();
            op.bytes *= activation_backward.of(compiled_);
        }
        if (name == "rope") {
            op.bytes = rope * op.bytes + repeated_bytes();
            if (backward_) op.bytes *= 2;  // once again as in forward
        }
        if (name == "cross_entropy") op.bytes *= cross_entropy;
        if (name == "adamw") op.bytes *= adamw;
        compute(op);
    }

    /// A GEMM of q, k and v, or of both inputs of SwiGLU, as one for each of them.
    void compute_apart(const OpWork& op) {
        const std::vector<std::int64_t> qkv = {q_width(), kv_width(), kv_width()};
        const std::vector<std::int64_t> gated = {plan_.model.ffn, plan_.model.ffn};
        for (const std::vector<std::int64_t>& widths : {qkv, gated}) {
            const std::int64_t all = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
            for (const auto size : {&OpWork::rows, &OpWork::cols, &OpWork::length}) {
                if (op.*size != all) continue;
                for (const std::int64_t width : widths)
                    compute(part_of(op, size, width));
                return;
            }
        }
        compute(op);
    }

    static OpWork part_of(OpWork op, std::int64_t OpWork::*size, std::int64_t width) {
        const double share = static_cast<double>(width) / static_cast<double>(op.*size);
        op.*size = width;
        op.flops *= share;
        op.bytes *= share;
        return op;
    }

    /// Every second GEMM of a block, in the order in which torchtitan has them: k of q, k, v; the
    /// attention's output; and the second of w1, w3, w2.
    void recompute_gemms() {
        const ModelShape& model = plan_.model;
        compute(gemm(kv_width(), model.hidden));
        compute(gemm(model.hidden, q_width()));
        compute(gemm(model.ffn, model.hidden));
    }

    OpWork gemm(std::int64_t outputs, std::int64_t inputs) const {
        const auto real = [](std::int64_t n) { return static_cast<double>(n); };
        return {
            .kind = OpWork::Kind::gemm,
            .dtype = DType::bf16,
            .name = "linear_forward",
            .rows = tokens_,
            .cols = outputs,
            .length = inputs,
            .flops = 2 * real(tokens_) * real(outputs) * real(inputs),
            .bytes = 2 * (real(tokens_) * real(outputs + inputs) + real(outputs) * real(inputs))};
    }

    double repeated_bytes() const {
        return repeated_kv * static_cast<double>(tokens_ * (q_width() + kv_width()));
    }

    std::int64_t q_width() const { return plan_.model.heads * plan_.model.head_dim; }
    std::int64_t kv_width() const { return plan_.model.groups * plan_.model.head_dim; }

    void compute(const OpWork& op) {
        body_->push_back({Kind::op, narrow<std::int32_t>(std::ssize(trace_.ops)), 0});
        trace_.ops.push_back(op);
    }

    StepTrace trace_;
    const RunPlan& plan_;
    std::int64_t tokens_;
    bool compiled_;
    bool backward_ = false;
    std::vector<TraceEvent>* body_ = nullptr;
};

}  // namespace

HardwareProfile torchtitan_hardware() {
    HardwareProfile hardware = load_profile("h100-sxm");
    DeviceProfile& device = hardware.device;
    device.gemm_efficiency.bf16 *= clock_share;
    device.memory_bandwidth = memory_bandwidth;
    device.memory_efficiency = memory_share;
    device.attention = {
        {.head_dim = 128, .forward = attention_forward, .backward = attention_backward}};
    device.message_issue_seconds = 0;
    hardware.node.link.block_bandwidth = 0;
    hardware.software.in_order = false;
    hardware.software.slowdown = slowdown;
    return hardware;
}

StepTrace as_torchtitan(StepTrace step, const RunPlan& plan, bool compiled) {
    return BlockRewriter(std::move(step), plan, compiled).rewrite();
}

}  // namespace gptrain::test
