#include "cuda/runtime/side_copies.h"

#include <utility>

namespace gptrain::cuda {

std::int64_t SideCopies::start(Direction direction, std::span<const HostTwin> twins,
                               const Stream& compute) {
    const auto lane_index = static_cast<std::int64_t>(direction);
    Lane& lane = lanes_[static_cast<std::size_t>(lane_index)];
    issued_.record(compute);
    lane.stream.wait(issued_);
    for (const auto& [device, host] : twins) {
        GPTRAIN_CHECK(device.contiguous() && host.contiguous() && device.bytes() == host.bytes(),
                      "a copy between ", device.shape().to_text(), " and ", host.shape().to_text());
        const bool fetches = direction == Direction::to_device;
        copy(fetches ? device.data() : host.data(), fetches ? host.data() : device.data(),
             device.bytes(), lane.stream);
    }
    lane.done[static_cast<std::size_t>(lane.next % remembered)].record(lane.stream);
    return lane.next++ * directions + lane_index;
}

void SideCopies::join(std::int64_t copies, const Stream& compute) {
    // Keeps the number of events bounded if nobody calls take_waited.
    constexpr std::size_t many = 1024;
    if (joins_.pending() >= many) waited_ += joins_.take_passed(events_);
    const Lane& lane = lanes_[static_cast<std::size_t>(copies % directions)];
    joins_.wait(lane.done[static_cast<std::size_t>(copies / directions % remembered)], compute,
                events_);
}

double SideCopies::take_waited() {
    return 1e-3 * (std::exchange(waited_, 0) + joins_.take_passed(events_));
}

}  // namespace gptrain::cuda
