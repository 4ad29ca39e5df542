// When each stage of one pipeline did what: simulated, or measured in a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace gptrain {

struct TimelineEvent {
    std::int64_t stage;
    ActionKind kind;  ///< of a message: the time that it is on its way
    std::int64_t chunk;
    std::int64_t microbatch;
    double begin;  ///< seconds from any common start
    double end;
};

/// A collective operation of a stage.
struct TimelineOperation {
    std::int64_t stage;
    std::string name;  ///< "dp reduce_scatter"
    double begin;      ///< issued
    double wait;       ///< from here on the stage waits for it
    double end;        ///< the wait has ended; when the operation itself was over is not known
};

struct Timeline {
    std::string title;
    std::int64_t stages = 0;
    std::int64_t chunks = 1;                         ///< of a stage
    std::vector<TimelineEvent> events;               ///< in any order
    std::vector<TimelineOperation> operations = {};  ///< of a measured one
};

/// From the first F to the end of the last compute action of any stage.
struct TimeSpan {
    double begin = 0;
    double end = 0;
    double seconds() const { return end - begin; }
};
TimeSpan span_of(const Timeline& timeline);

/// Seconds of the span in which each stage computes nothing.
std::vector<double> idle_times(const Timeline& timeline);

/// The bubble: idle time / ideal time, over all stages. Ideal is the time of the compute actions,
/// which a stage that never waits would need: p x span / ideal - 1. At equal costs of all stages
/// and messages without cost: (p-1)/m for gpipe and 1f1b, (p-1)/(v m) for interleaved_1f1b where p
/// divides m; where F, B and W cost the same, (p-1)/(3m) for ZB-H1 and (p-1)/(6m) for ZB-V where m
/// is large enough.
double bubble(const Timeline& timeline);

/// A picture for people: a row for each stage with F, BW, B and W in their colours (later chunks
/// paler), microbatch numbers where they fit, messages as a line under the row, and under that
/// operations from their issue to their end with the time in which the stage waits for them. A long
/// middle is left out behind a mark that says how long.
void write_timeline_svg(const std::filesystem::path& path, const Timeline& timeline);

/// Chrome's trace event format, which Perfetto reads: every event, a thread for each stage and ones
/// for its messages and its operations.
void write_timeline_json(const std::filesystem::path& path, const Timeline& timeline);

}  // namespace gptrain
