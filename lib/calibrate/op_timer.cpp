#include "calibrate/op_timer.h"

namespace gptrain {

std::vector<OpTimer::TimedOp> OpTimer::take() {
    const std::vector<double> laps = stopwatch_->take_laps();
    std::vector<TimedOp> ops;
    // Every other lap is the time between two ops.
    for (std::size_t i = 0; i < works_.size(); ++i)
        ops.push_back({works_[i], laps[2 * i]});
    works_.clear();
    return ops;
}

}  // namespace gptrain
