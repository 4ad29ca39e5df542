#include "cuda/runtime/event_stopwatch.h"

namespace gptrain::cuda {

void EventStopwatch::lap() {
    if (used_ == ends_.size()) ends_.emplace_back(Event::Purpose::time);
    ends_[used_++].record(stream_);
}

std::vector<double> EventStopwatch::take_laps() {
    stream_.synchronize();
    std::vector<double> seconds;
    for (std::size_t i = 1; i < used_; ++i)
        seconds.push_back(1e-3 * ends_[i].milliseconds_since(ends_[i - 1]));
    used_ = 0;
    return seconds;
}

}  // namespace gptrain::cuda
