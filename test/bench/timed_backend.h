// A backend that measures how long each op of another one takes on the device.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/op_parts.h"
#include "backend/passing_backend.h"

namespace gptrain::bench {

/// Passes everything on to a backend. While `timing` is on, its stopwatch measures each op, and
/// nothing is replayed from a record.
class TimedBackend final : public EachOp<PassingBackend, TimedBackend> {
public:
    /// `inner` must outlive this.
    explicit TimedBackend(Backend& inner)
        : EachOp<PassingBackend, TimedBackend>(inner), stopwatch_(inner.stopwatch()) {}

    void time(bool on) { timing_ = on; }
    /// Milliseconds of the ops timed since the last call, by op, and of GEMMs also by their sizes;
    /// waits for the device.
    struct Times {
        std::map<std::string, double> ops;
        std::map<std::string, double> gemms;
    };
    Times take_times();

    void replay(std::int64_t key, const std::function<void()>& work) override {
        if (timing_)
            work();
        else
            inner().replay(key, work);
    }
    void copy(const Tensor& to, const Tensor& from) override;
    void upload(const Tensor& to, std::span<const std::byte> from) override;

    template <class Op>
    void on(const Op& op) {
        timed(Op::name, [&] { inner().run(op); });
    }
    /// An activation function after a linear layer is timed as what it is, and so is the gradient
    /// of a SwiGLU.
    void on(const LinearForward& op);
    void on(const LinearInputGrad& op);
    void on(const LinearWeightGrad& op);

private:
    struct TimedOp {
        std::string op;
        std::string gemm;  ///< its sizes; empty for other ops
    };

    void timed(std::string_view op, const auto& work, const std::string& gemm = {}) {
        if (!timing_) return work();
        stopwatch_->lap();
        work();
        stopwatch_->lap();
        ops_.push_back({std::string(op), gemm});
    }

    std::unique_ptr<Stopwatch> stopwatch_;
    bool timing_ = false;
    std::vector<TimedOp> ops_;
};

}  // namespace gptrain::bench
