#include "cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <omp.h>
#include <thread>
#include <vector>

#include "cpu/activation.h"
#include "cpu/attention.h"
#include "cpu/checksum.h"
#include "cpu/cross_entropy.h"
#include "cpu/embedding.h"
#include "cpu/fp8.h"
#include "cpu/linear.h"
#include "cpu/memory.h"
#include "cpu/norm.h"
#include "cpu/optimizer.h"
#include "cpu/random.h"
#include "cpu/rope.h"
#include "cpu/step.h"

namespace gptrain::cpu {
namespace {

/// If the system refuses a thread, OpenMP ends the program with its own message. So this first
/// starts as many ordinary threads at the same time, then OpenMP's, once there is known to be room.
void start_threads() {
    {
        std::mutex started;
        std::vector<std::jthread> threads;
        const std::lock_guard hold(started);
        for (int i = 1; i < omp_get_max_threads(); ++i)
            threads.emplace_back([&] { const std::lock_guard wait(started); });
    }
#pragma omp parallel
    {}
}

/// A synchronous backend: ops are done when they return.
class CpuBackend final : public Backend {
public:
    std::string_view name() const override { return "cpu"; }

    Buffer allocate(std::int64_t bytes, MemorySpace space) override {
        return Buffer(*this, space, allocate_pages(bytes), bytes);
    }
    std::int64_t scratch_bytes(const OpLimits& limits) const override {
        return cpu::scratch_bytes(limits, omp_get_max_threads());
    }
    void use_scratch(const Tensor& bytes) override { scratch_.use(bytes); }
    bool is_host() const override { return true; }
    void copy(const Tensor& to, const Tensor& from) override { cpu::copy(to, from); }
    void upload(const Tensor& to, std::span<const std::byte> from) override {
        GPTRAIN_CHECK(to.contiguous() && to.bytes() == std::ssize(from), "upload of ", from.size(),
                      " bytes to ", to.shape().to_text());
        if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    }
    void download(std::span<std::byte> to, const Tensor& from) override {
        GPTRAIN_CHECK(from.contiguous() && from.bytes() == std::ssize(to), "download of ",
                      from.shape().to_text(), " to ", to.size(), " bytes");
        if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
    }
    void synchronize() override {}

    void fill(const Tensor& x, float value) override { cpu::fill(x, value); }
    void cast(const Tensor& to, const Tensor& from) override { cpu::cast(to, from); }
    void init_normal(const Tensor& x, const Shard& shard, std::uint64_t seed, float std) override {
        cpu::init_normal(x, shard, seed, std);
    }
    void update_amax(const Tensor& x, const Tensor& amax) override { cpu::update_amax(x, amax); }
    void to_fp8(const ToFp8& args) override { cpu::to_fp8(args); }

    void linear_forward(const LinearForward& args) override {
        cpu::linear_forward(args, gemms_, fresh_scratch());
        if (!args.gelu.empty()) cpu::activation_forward({.u = args.y, .y = args.gelu});
    }
    void linear_input_grad(const LinearInputGrad& args) override {
        cpu::linear_input_grad(args, gemms_, fresh_scratch());
    }
    void linear_weight_grad(const LinearWeightGrad& args) override {
        cpu::linear_weight_grad(args, gemms_, fresh_scratch());
    }
    void bias_grad(const Tensor& dy, const Tensor& dbias) override { cpu::bias_grad(dy, dbias); }
    void add_bias(const Tensor& y, const Tensor& bias) override { cpu::add_bias(y, bias); }
    void residual_norm_forward(const ResidualNormForward& args) override {
        cpu::residual_norm_forward(args);
    }
    void residual_norm_backward(const ResidualNormBackward& args) override {
        cpu::residual_norm_backward(args, fresh_scratch());
    }
    void dropout_backward(const DropoutBackward& args) override { cpu::dropout_backward(args); }
    void activation_forward(const ActivationForward& args) override {
        cpu::activation_forward(args);
    }
    void activation_backward(const ActivationBackward& args) override {
        cpu::activation_backward(args);
    }
    void embedding_forward(const EmbeddingForward& args) override { cpu::embedding_forward(args); }
    void embedding_backward(const EmbeddingBackward& args) override {
        cpu::embedding_backward(args);
    }
    void position_forward(const PositionForward& args) override { cpu::position_forward(args); }
    void position_backward(const PositionBackward& args) override { cpu::position_backward(args); }
    void rope(const Rope& args) override { cpu::rope(args, fresh_scratch()); }
    void attention_forward(const AttentionForward& args) override {
        cpu::attention_forward(args, fresh_scratch());
    }
    void attention_backward(const AttentionBackward& args) override {
        cpu::attention_backward(args, fresh_scratch());
    }
    void merge_attention(const MergeAttention& args) override { cpu::merge_attention(args); }
    void cross_entropy(const CrossEntropy& args) override {
        cpu::cross_entropy(args, fresh_scratch());
    }
    void vocab_parallel_maximum(const VocabParallelCrossEntropy& args) override {
        cpu::vocab_parallel_maximum(args);
    }
    void vocab_parallel_sums(const VocabParallelCrossEntropy& args) override {
        cpu::vocab_parallel_sums(args);
    }
    void vocab_parallel_gradient(const VocabParallelCrossEntropy& args) override {
        cpu::vocab_parallel_gradient(args, fresh_scratch());
    }

    void begin_step(const StepRef& step, const StepState& given) override {
        cpu::begin_step(step, given);
    }
    void check_loss(const StepRef& step) override { cpu::check_loss(step); }
    void checksum(const Tensor& x, const Tensor& sum) override { cpu::checksum(x, sum); }
    void sum_rows(const Tensor& to, const Tensor& rows) override { cpu::sum_rows(to, rows); }
    void square_sum(std::span<const Tensor> tensors, const Tensor& total) override {
        cpu::square_sum(tensors, total);
    }
    void decide_step(const StepRef& step, const StepPolicy& policy) override {
        cpu::decide_step(step, policy);
    }
    void find_not_finite(std::span<const Tensor> tensors, const StepRef& step) override {
        cpu::find_not_finite(tensors, step);
    }
    void adamw(std::span<const AdamWPiece> pieces, const AdamWConstants& constants,
               const StepRef& step) override {
        cpu::adamw(pieces, constants, step);
    }

private:
    void release(std::byte* data, std::int64_t bytes, MemorySpace /*space*/) noexcept override {
        release_pages(data, bytes);
    }
    Scratch& fresh_scratch() {
        scratch_.reset();
        return scratch_;
    }

    Scratch scratch_;
    Gemms gemms_;
};

}  // namespace

std::unique_ptr<Backend> make_backend() {
    // F16C, which clang 14 cannot test for, predates AVX2.
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        fail(ExitCode::usage,
             "the CPU backend needs a CPU with AVX2 and FMA (x86-64-v3); run on a newer machine");
    }
    start_threads();
    return std::make_unique<CpuBackend>();
}

std::int64_t scratch_bytes(const OpLimits& limits, int threads) {
    const std::int64_t tokens = limits.sequences * limits.seq_length;
    return std::max(
        {linear_scratch_bytes(limits.compute, threads), norm_scratch_bytes(tokens, limits.hidden),
         rope_scratch_bytes(limits.head_dim),
         cross_entropy_scratch_bytes(std::max(limits.head_chunk, tokens)),
         attention_forward_scratch_bytes(limits.head_dim, threads),
         attention_backward_scratch_bytes(limits.seq_length, limits.head_dim, threads)});
}

}  // namespace gptrain::cpu
