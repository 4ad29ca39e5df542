// The meter: a backend without data. Running the real model, executor and optimizer on it gives the
// memory and work of any rank of any mesh, on any machine.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "backend/backend.h"
#include "backend/linear_op.h"
#include "backend/op_parts.h"
#include "meter/op_listener.h"
#include "meter/work_of.h"

namespace gptrain {

/// Work done, in floating point operations; a multiply-add counts as two.
struct Work {
    double gemms = 0;      ///< GEMMs of linear layers, those of experts included
    double attention = 0;  ///< visible query-key pairs only
    double updates = 0;    ///< number of parameters updated by the optimizer
    double total() const { return gemms + attention; }
};

/// Its addresses are never read or written. `download` gives zeros.
class MeterBackend : public EachOp<Backend, MeterBackend> {
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
    std::int64_t fetch(std::span<const HostTwin> twins) override {
        return start(HostCopies::Direction::fetch, twins);
    }
    std::int64_t store(std::span<const HostTwin> twins) override {
        return start(HostCopies::Direction::store, twins);
    }
    void join(std::int64_t copies) override;

    /// Reports every op to `listener`, which must outlive the backend.
    void listen(OpListener& listener) { listener_ = &listener; }

    void on(const auto& op) {
        count(op);
        if (listener_ == nullptr) return;
        each_part(op, [&](const auto& part) { listener_->on_op(work_of(part)); });
    }

private:
    void count_gemm(const auto& op) {
        linear_ops_.emplace(op);
        work_.gemms += work_of(op).flops;
    }
    void count(const LinearForward& op) { count_gemm(op); }
    void count(const Int8LinearForward& op) { work_.gemms += work_of(op).flops; }
    void count(const Nf4LinearForward& op) { work_.gemms += work_of(op).flops; }
    void count(const LinearInputGrad& op) { count_gemm(op); }
    void count(const LinearWeightGrad& op) { count_gemm(op); }
    void count(const GroupedForward& op) { count_gemm(op); }
    void count(const GroupedInputGrad& op) { count_gemm(op); }
    void count(const GroupedWeightGrad& op) { count_gemm(op); }
    void count(const AttentionForward& op) { work_.attention += work_of(op).flops; }
    void count(const AttentionBackward& op) { work_.attention += work_of(op).flops; }
    void count(const AdamW& op);
    void count(const MuonUpdate& op);
    /// All other ops count nothing.
    template <class Op>
    void count(const Op& /*op*/) {}

    std::int64_t start(HostCopies::Direction direction, std::span<const HostTwin> twins);
    void release(std::byte*, std::int64_t, MemorySpace) noexcept override {}

    BackendMemory needs_;
    Work work_;
    LinearOps linear_ops_;
    OpListener* listener_ = nullptr;
    static constexpr std::int64_t directions = 2;
    std::array<std::int64_t, directions> copies_{};  ///< started so far
};

}  // namespace gptrain
