// The times of steps with too many microbatches to simulate each.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "planner/timeline.h"

namespace gptrain {

/// The subject of a track, and its stage. Every time that decides about later ones has a track.
struct TrackKey {
    enum class Clock {
        action,   ///< ends of compute actions or messages of a chunk
        message,  ///< ends of a communicator's messages
        host,     ///< until when the host has issued an action
    };
    Clock clock = Clock::action;
    std::int64_t stage = 0;
    ActionKind kind = ActionKind::forward;  ///< of the action, or of the stage's last one
    std::int64_t index = 0;                 ///< of the chunk or the communicator
    auto operator<=>(const TrackKey&) const = default;
};
using Tracks = std::map<TrackKey, std::vector<double>>;  ///< times in their order

/// The tracks of the timeline's events.
Tracks tracks_of(const Timeline& timeline);

struct SimulatedStep {
    Tracks tracks;
    std::vector<double> times;  ///< that are wanted of the step, in any order
};

/// True if the step of `shape` repeats itself once its pipeline is full: over more microbatches
/// than any stage can be ahead of another, everything takes place the same time after what is one
/// `period` of microbatches before it, and the host is not slower. Then nothing changes, however
/// many microbatches follow. `longer`: of a step with a period more, which shows what a period has.
bool repeats(const Tracks& tracks, const Tracks& longer, const PipelineShape& shape,
             std::int64_t period);

/// The times of a step of `shape`. With more than most_executed microbatches they follow from two
/// shorter steps, which differ by a period in which such a step repeats itself; if it does not
/// repeat itself in `full` microbatches (full_microbatches), from longer ones.
std::vector<double> times_of_step(
    const PipelineShape& shape, std::int64_t full,
    const std::function<SimulatedStep(std::int64_t microbatches)>& simulate);

}  // namespace gptrain
