// A backend that measures how long each op of another one takes.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "backend/passing_backend.h"
#include "calibrate/samples.h"
#include "meter/op_work.h"

namespace gptrain {

/// Passes everything on to a backend. While `timing` is on, it waits for every op.
class OpTimer final : public EachOp<PassingBackend, OpTimer> {
public:
    /// `inner` must outlive this.
    explicit OpTimer(Backend& inner) : EachOp<PassingBackend, OpTimer>(inner) {}

    struct Timed {
        OpWork work;
        std::vector<double> seconds;  ///< of each time it ran
    };
    void time(bool on) { timing_ = on; }
    /// Every distinct op so far.
    std::vector<Timed> ops() const;
    /// Seconds of each op so far, in their order.
    const std::vector<double>& seconds() const { return seconds_; }

    template <class Op>
    void on(const Op& op) {
        if (!timing_) return inner().run(op);
        const double seconds = seconds_of([&] {
            inner().run(op);
            inner().synchronize();
        });
        add(work_of(op), seconds);
    }

private:
    void add(const OpWork& work, double seconds);

    using Key = std::tuple<std::string_view, std::int64_t, std::int64_t, std::int64_t, double>;

    bool timing_ = false;
    std::vector<double> seconds_;
    std::map<Key, Timed> timed_;
};

}  // namespace gptrain
