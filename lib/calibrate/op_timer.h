// A backend that measures how long each op of another one takes.
#pragma once

#include <memory>
#include <vector>

#include "backend/op_parts.h"
#include "backend/passing_backend.h"
#include "hardware/op_work.h"
#include "meter/work_of.h"

namespace gptrain {

/// Passes everything on to a backend. While `timing` is on, a stopwatch measures every op.
class OpTimer final : public EachOp<PassingBackend, OpTimer> {
public:
    /// `inner` must outlive this.
    explicit OpTimer(Backend& inner)
        : EachOp<PassingBackend, OpTimer>(inner), stopwatch_(inner.stopwatch()) {}

    struct TimedOp {
        OpWork work;
        double seconds = 0;
    };
    void time(bool on) { timing_ = on; }
    /// The ops timed since the last call, in their order. Waits for the device.
    std::vector<TimedOp> take();

    void on(const auto& op) {
        if (!timing_) return inner().run(op);
        each_part(op, [&](const auto& part) {
            stopwatch_->lap();
            inner().run(part);
            stopwatch_->lap();
            works_.push_back(work_of(part));
        });
    }

private:
    std::unique_ptr<Stopwatch> stopwatch_;
    bool timing_ = false;
    std::vector<OpWork> works_;
};

}  // namespace gptrain
