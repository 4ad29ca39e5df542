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
    // Those of many steps that nobody asks about.
    constexpr std::size_t many = 1024;
    if (waits_.size() >= many) add_passed_waits();
    if (free_.empty()) free_.emplace_back();
    Wait wait = std::move(free_.back());
    free_.pop_back();
    wait.begin.record(compute);
    const Lane& lane = lanes_[static_cast<std::size_t>(copies % directions)];
    compute.wait(lane.done[static_cast<std::size_t>(copies / directions % remembered)]);
    wait.end.record(compute);
    waits_.push_back(std::move(wait));
}

void SideCopies::add_passed_waits() {
    while (!waits_.empty() && waits_.front().end.done()) {
        waited_ += waits_.front().end.milliseconds_since(waits_.front().begin);
        free_.push_back(std::move(waits_.front()));
        waits_.pop_front();
    }
}

double SideCopies::take_waited() {
    add_passed_waits();
    return 1e-3 * std::exchange(waited_, 0);
}

}  // namespace gptrain::cuda
