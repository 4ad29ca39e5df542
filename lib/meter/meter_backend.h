// The meter: a backend without data. Running the real model, executor and optimizer on it gives the
// memory and work of any rank of any mesh, on any machine.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "backend/backend.h"
#include "backend/linear_op.h"

namespace gptrain {

/// Work done, in floating point operations; a multiply-add counts as two.
struct Work {
    double gemms = 0;      ///< GEMMs of linear layers
    double attention = 0;  ///< visible query-key pairs only
    double updates = 0;    ///< number of parameters updated by AdamW
    double total() const { return gemms + attention; }
};

/// Its addresses are never read or written. `download` gives zeros.
class MeterBackend : public Backend {
public:
    /// `needs` are those of the backend that will run.
    explicit MeterBackend(BackendMemory needs) : needs_(std::move(needs)) {}

    const Work& work() const { return work_; }
    void clear_work() { work_ = {}; }
    /// All distinct linear ops so far.
    const LinearOps& linear_ops() const { return linear_ops_; }

    std::string_view name() const override { return "meter"; }
    Buffer allocate(std::int64_t bytes, MemorySpace space) override;
    std::int64_t scratch_bytes(const OpLimits& limits) const override {
        return needs_.scratch(limits);
    }
    void use_scratch(const Tensor&) override {}
    std::int64_t staging_bytes() const override { return needs_.staging; }
    std::int64_t row_alignment() const override { return needs_.row_alignment; }
    void copy(const Tensor&, const Tensor&) override {}
    void upload(const Tensor&, std::span<const std::byte>) override {}
    void download(std::span<std::byte> to, const Tensor& from) override;
    void synchronize() override {}
    void fill(const Tensor&, float) override {}
    void cast(const Tensor&, const Tensor&) override {}
    void init_normal(const Tensor&, const Shard&, std::uint64_t, float) override {}
    void update_amax(const Tensor&, const Tensor&) override {}
    void to_fp8(const ToFp8&) override {}
    void linear_forward(const LinearForward& args) override;
    void linear_input_grad(const LinearInputGrad& args) override;
    void linear_weight_grad(const LinearWeightGrad& args) override;
    void bias_grad(const Tensor&, const Tensor&) override {}
    void add_bias(const Tensor&, const Tensor&) override {}
    void residual_norm_forward(const ResidualNormForward&) override {}
    void residual_norm_backward(const ResidualNormBackward&) override {}
    void dropout_backward(const DropoutBackward&) override {}
    void activation_forward(const ActivationForward&) override {}
    void activation_backward(const ActivationBackward&) override {}
    void embedding_forward(const EmbeddingForward&) override {}
    void embedding_backward(const EmbeddingBackward&) override {}
    void position_forward(const PositionForward&) override {}
    void position_backward(const PositionBackward&) override {}
    void rope(const Rope&) override {}
    void attention_forward(const AttentionForward& args) override;
    void attention_backward(const AttentionBackward& args) override;
    void merge_attention(const MergeAttention&) override {}
    void cross_entropy(const CrossEntropy&) override {}
    void vocab_parallel_maximum(const VocabParallelCrossEntropy&) override {}
    void vocab_parallel_sums(const VocabParallelCrossEntropy&) override {}
    void vocab_parallel_gradient(const VocabParallelCrossEntropy&) override {}
    void begin_step(const StepRef&, const StepState&) override {}
    void check_loss(const StepRef&) override {}
    void checksum(const Tensor&, const Tensor&) override {}
    void sum_rows(const Tensor&, const Tensor&) override {}
    void square_sum(std::span<const Tensor>, const Tensor&) override {}
    void decide_step(const StepRef&, const StepPolicy&) override {}
    void find_not_finite(std::span<const Tensor>, const StepRef&) override {}
    void adamw(std::span<const AdamWPiece> pieces, const AdamWConstants&, const StepRef&) override;

private:
    void release(std::byte*, std::int64_t, MemorySpace) noexcept override {}

    BackendMemory needs_;
    Work work_;
    LinearOps linear_ops_;
};

}  // namespace gptrain
