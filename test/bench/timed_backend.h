// A backend that measures how long each op of another one takes on the device.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::bench {

/// Passes everything on to a CUDA backend. While `timing` is on, each op stands between two events
/// of the device's stream, and nothing is replayed from a record.
class TimedBackend final : public EachOp<Backend, TimedBackend> {
public:
    /// `inner` and `stream`, on which it computes, must outlive this.
    TimedBackend(Backend& inner, const cuda::Stream& stream) : inner_(inner), stream_(stream) {}

    void time(bool on) { timing_ = on; }
    /// Milliseconds of the ops timed since the last call, by op; waits for the device.
    std::map<std::string, double> take_times();

    std::string_view name() const override { return inner_.name(); }
    Buffer allocate(std::int64_t bytes, MemorySpace space) override {
        return inner_.allocate(bytes, space);
    }
    std::int64_t scratch_bytes(const OpLimits& limits) const override {
        return inner_.scratch_bytes(limits);
    }
    void use_scratch(const Tensor& bytes) override { inner_.use_scratch(bytes); }
    std::int64_t staging_bytes() const override { return inner_.staging_bytes(); }
    void use_staging(const Tensor& bytes) override { inner_.use_staging(bytes); }
    void download(std::span<std::byte> to, const Tensor& from) override {
        inner_.download(to, from);
    }
    void synchronize() override { inner_.synchronize(); }
    std::int64_t mark() override { return inner_.mark(); }
    void wait(std::int64_t mark) override { inner_.wait(mark); }
    void replay(std::int64_t key, const std::function<void()>& work) override {
        if (timing_)
            work();
        else
            inner_.replay(key, work);
    }
    void begin_range(std::string_view name) override { inner_.begin_range(name); }
    void end_range() override { inner_.end_range(); }

    void copy(const Tensor& to, const Tensor& from) override;
    void upload(const Tensor& to, std::span<const std::byte> from) override;

    template <class Op>
    void on(const Op& op) {
        timed(Op::name, [&] { inner_.run(op); });
    }
    /// A gelu after a linear layer is timed as what it is.
    void on(const LinearForward& op);

private:
    struct Interval {
        std::string_view op;
        cuda::Event start{cuda::Event::Purpose::time};
        cuda::Event end{cuda::Event::Purpose::time};
    };

    /// The memory is the inner backend's, which takes it back.
    void release(std::byte* /*data*/, std::int64_t /*bytes*/,
                 MemorySpace /*space*/) noexcept override {}
    void timed(std::string_view op, const auto& work) {
        if (!timing_) return work();
        if (used_ == intervals_.size()) intervals_.emplace_back();
        Interval& interval = intervals_[used_++];
        interval.op = op;
        interval.start.record(stream_);
        work();
        interval.end.record(stream_);
    }

    Backend& inner_;
    const cuda::Stream& stream_;
    bool timing_ = false;
    std::vector<Interval> intervals_;  ///< kept for the next steps: events take time to make
    std::size_t used_ = 0;
};

}  // namespace gptrain::bench
