#include "cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <omp.h>

#include "backend/op_parts.h"
#include "cpu/activation.h"
#include "cpu/attention.h"
#include "cpu/checksum.h"
#include "cpu/cross_entropy.h"
#include "cpu/embedding.h"
#include "cpu/expert_rows.h"
#include "cpu/few_rows.h"
#include "cpu/fp8.h"
#include "cpu/grouped_linear.h"
#include "cpu/head_norm.h"
#include "cpu/int8.h"
#include "cpu/linear.h"
#include "cpu/linear_bias.h"
#include "cpu/memory.h"
#include "cpu/muon.h"
#include "cpu/nf4.h"
#include "cpu/norm.h"
#include "cpu/optimizer.h"
#include "cpu/random.h"
#include "cpu/rope.h"
#include "cpu/router.h"
#include "cpu/router_losses.h"
#include "cpu/row_norm.h"
#include "cpu/spin_limit.h"
#include "cpu/step.h"
#include "cpu/values.h"

namespace gptrain::cpu {
namespace {

/// A synchronous backend: ops are done when they return.
class CpuBackend final : public EachOp<Backend, CpuBackend> {
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

    void on(const auto& op) {
        each_part(op, [&](const auto& part) { on_part(part); });
    }

private:
    /// A kernel takes what it needs besides its op.
    void on_part(const auto& op) {
        if constexpr (requires { cpu::run(op, gemms_, scratch_); }) {
            cpu::run(op, gemms_, fresh_scratch());
        } else if constexpr (requires { cpu::run(op, scratch_); }) {
            cpu::run(op, fresh_scratch());
        } else {
            cpu::run(op);
        }
    }
    void release(std::byte* data, std::int64_t bytes, MemorySpace /*space*/) noexcept override {
        release_pages(data, bytes);
    }
    Scratch& fresh_scratch() {
        scratch_.reset();
        return scratch_;
    }

    Scratch scratch_;
    Gemms gemms_;
    SpinLimit spin_limit_{start_openmp(omp_get_max_threads())};
};

}  // namespace

std::unique_ptr<Backend> make_backend() {
    // F16C, which clang 14 cannot test for, predates AVX2.
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        fail(ExitCode::usage,
             "the CPU backend needs a CPU with AVX2 and FMA (x86-64-v3); run on a newer machine");
    }
    return std::make_unique<CpuBackend>();
}

namespace {

std::int64_t expert_scratch_bytes(const OpLimits& limits, int threads) {
    if (limits.experts == 0) return 0;
    const std::int64_t tokens = limits.sequences * limits.seq_length;
    return std::max({router_scratch_bytes(limits.experts, threads),
                     router_losses_scratch_bytes(tokens, limits.experts, threads),
                     grouped_scratch_bytes(limits.compute, threads)});
}

}  // namespace

std::int64_t scratch_bytes(const OpLimits& limits, int threads) {
    const std::int64_t tokens = limits.sequences * limits.seq_length;
    return std::max(
        {linear_scratch_bytes(limits.compute, threads), norm_scratch_bytes(tokens, limits.hidden),
         head_norm_scratch_bytes(tokens, limits.head_dim),
         row_norm_scratch_bytes(tokens, limits.shared_norm), rope_scratch_bytes(limits.head_dim),
         cross_entropy_scratch_bytes(std::max(limits.head_rows, tokens)),
         attention_forward_scratch_bytes(limits.head_dim, threads),
         attention_backward_scratch_bytes(limits.seq_length, limits.head_dim, threads),
         expert_scratch_bytes(limits, threads)});
}

}  // namespace gptrain::cpu
