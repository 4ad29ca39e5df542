// A backend that has memory and copies but no ops: enough for what only moves state.
#pragma once

#include <cstdlib>
#include <cstring>
#include <vector>

#include "backend/backend.h"

namespace gptrain {

class HostBackend final : public Backend {
public:
    /// What it says of itself: without it, it is used as a device is.
    bool host_memory = true;

    std::string_view name() const override { return "host"; }

    Buffer allocate(std::int64_t bytes, MemorySpace space) override {
        const auto size = static_cast<std::size_t>(round_up(bytes, Arena::alignment));
        void* data = std::aligned_alloc(Arena::alignment, size);
        if (data == nullptr && size > 0) fail(ExitCode::usage, "out of memory");
        return {*this, space, static_cast<std::byte*>(data), bytes};
    }
    std::int64_t scratch_bytes(const OpLimits&) const override { return 0; }
    void use_scratch(const Tensor&) override {}
    bool is_host() const override { return host_memory; }
    void copy(const Tensor& to, const Tensor& from) override {
        download({to.data(), static_cast<std::size_t>(to.bytes())}, from);
    }
    void upload(const Tensor& to, std::span<const std::byte> from) override {
        GPTRAIN_CHECK(to.contiguous() && std::cmp_equal(to.bytes(), from.size()));
        if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    }
    void download(std::span<std::byte> to, const Tensor& from) override {
        GPTRAIN_CHECK(from.contiguous() && std::cmp_equal(from.bytes(), to.size()));
        if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
    }
    void synchronize() override {}

    void fill(const Tensor&, float) override { refuse(); }
    void cast(const Tensor&, const Tensor&) override { refuse(); }
    void init_normal(const Tensor&, const Shard&, std::uint64_t, float) override { refuse(); }
    void update_amax(const Tensor&, const Tensor&) override { refuse(); }
    void to_fp8(const ToFp8&) override { refuse(); }
    void linear_forward(const LinearForward&) override { refuse(); }
    void linear_input_grad(const LinearInputGrad&) override { refuse(); }
    void linear_weight_grad(const LinearWeightGrad&) override { refuse(); }
    void bias_grad(const Tensor&, const Tensor&) override { refuse(); }
    void add_bias(const Tensor&, const Tensor&) override { refuse(); }
    void residual_norm_forward(const ResidualNormForward&) override { refuse(); }
    void residual_norm_backward(const ResidualNormBackward&) override { refuse(); }
    void dropout_backward(const DropoutBackward&) override { refuse(); }
    void activation_forward(const ActivationForward&) override { refuse(); }
    void activation_backward(const ActivationBackward&) override { refuse(); }
    void embedding_forward(const EmbeddingForward&) override { refuse(); }
    void embedding_backward(const EmbeddingBackward&) override { refuse(); }
    void position_forward(const PositionForward&) override { refuse(); }
    void position_backward(const PositionBackward&) override { refuse(); }
    void rope(const Rope&) override { refuse(); }
    void attention_forward(const AttentionForward&) override { refuse(); }
    void attention_backward(const AttentionBackward&) override { refuse(); }
    void merge_attention(const MergeAttention&) override { refuse(); }
    void cross_entropy(const CrossEntropy&) override { refuse(); }
    void vocab_parallel_maximum(const VocabParallelCrossEntropy&) override { refuse(); }
    void vocab_parallel_sums(const VocabParallelCrossEntropy&) override { refuse(); }
    void vocab_parallel_gradient(const VocabParallelCrossEntropy&) override { refuse(); }
    void begin_step(const StepRef&, const StepState&) override { refuse(); }
    void check_loss(const StepRef&) override { refuse(); }
    void checksum(const Tensor&, const Tensor&) override { refuse(); }
    void sum_rows(const Tensor&, const Tensor&) override { refuse(); }
    void square_sum(std::span<const Tensor>, const Tensor&) override { refuse(); }
    void decide_step(const StepRef&, const StepPolicy&) override { refuse(); }
    void find_not_finite(std::span<const Tensor>, const StepRef&) override { refuse(); }
    void adamw(std::span<const AdamWPiece>, const AdamWConstants&, const StepRef&) override {
        refuse();
    }

private:
    [[noreturn]] static void refuse() { fail(ExitCode::bug, "the host backend has no ops"); }
    void release(std::byte* data, std::int64_t, MemorySpace) noexcept override { std::free(data); }
};

}  // namespace gptrain
