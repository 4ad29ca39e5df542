// Measures work on a stream.
#pragma once

#include <vector>

#include "backend/stopwatch.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// Its laps end at events of the stream, which must outlive it.
class EventStopwatch final : public Stopwatch {
public:
    explicit EventStopwatch(const Stream& stream) : stream_(stream) {}

    void lap() override;
    std::vector<double> take_laps() override;

private:
    const Stream& stream_;
    std::vector<Event> ends_;  ///< kept for the next laps: events take time to make
    std::size_t used_ = 0;
};

}  // namespace gptrain::cuda
