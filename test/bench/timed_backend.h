// A backend that measures how long each op of another one takes on the device.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/passing_backend.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::bench {

/// Passes everything on to a CUDA backend. While `timing` is on, each op stands between two events
/// of the device's stream, and nothing is replayed from a record.
class TimedBackend final : public EachOp<PassingBackend, TimedBackend> {
public:
    /// `inner` and `stream`, on which it computes, must outlive this.
    TimedBackend(Backend& inner, const cuda::Stream& stream)
        : EachOp<PassingBackend, TimedBackend>(inner), stream_(stream) {}

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
    void on(const LinearInputGrad& op);
    void on(const LinearWeightGrad& op);
    /// A gelu after a linear layer is timed as what it is.
    void on(const LinearForward& op);

private:
    struct Interval {
        std::string_view op;
        std::string gemm;  ///< its sizes; empty for other ops
        cuda::Event start{cuda::Event::Purpose::time};
        cuda::Event end{cuda::Event::Purpose::time};
    };

    void timed(std::string_view op, const auto& work, const std::string& gemm = {}) {
        if (!timing_) return work();
        if (used_ == intervals_.size()) intervals_.emplace_back();
        Interval& interval = intervals_[used_++];
        interval.op = op;
        interval.gemm = gemm;
        interval.start.record(stream_);
        work();
        interval.end.record(stream_);
    }

    const cuda::Stream& stream_;
    bool timing_ = false;
    std::vector<Interval> intervals_;  ///< kept for the next steps: events take time to make
    std::size_t used_ = 0;
};

}  // namespace gptrain::bench
