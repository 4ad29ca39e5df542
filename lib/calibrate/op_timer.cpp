#include "calibrate/op_timer.h"

namespace gptrain {

void OpTimer::add(const OpWork& work, double seconds) {
    Timed& timed = timed_[{work.name, work.rows, work.cols, work.length, work.bytes}];
    timed.work = work;
    timed.seconds.push_back(seconds);
    seconds_.push_back(seconds);
}

std::vector<OpTimer::Timed> OpTimer::ops() const {
    std::vector<Timed> ops;
    for (const auto& [key, timed] : timed_)
        ops.push_back(timed);
    return ops;
}

}  // namespace gptrain
