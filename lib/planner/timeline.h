// The actions of each stage of one pipeline over time, simulated or measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace gptrain {

struct TimelineEvent {
    std::int64_t stage;
    ActionKind kind;  ///< for a message: the time in flight
    std::int64_t chunk;
    std::int64_t microbatch;
    double begin;  ///< seconds, from any common start
    double end;
};

/// A collective operation of a stage.
struct TimelineOperation {
    std::int64_t stage;
    std::string name;  ///< "dp reduce_scatter"
    double begin;      ///< issued
    double wait;       ///< when the stage started to wait for it
    double end;        ///< end of the wait; when the operation itself ended is unknown
};

struct Timeline {
    std::string title;
    std::int64_t stages = 0;
    std::int64_t chunks = 1;                         ///< of a stage
    std::vector<TimelineEvent> events;               ///< in any order
    std::vector<TimelineOperation> operations = {};  ///< measured timelines only
};

/// From the start of the first F to the end of the last compute action on any stage.
struct TimeSpan {
    double begin = 0;
    double end = 0;
    double seconds() const { return end - begin; }
};
TimeSpan span_of(const Timeline& timeline);

/// Seconds of the compute actions of all stages.
double busy_seconds(const Timeline& timeline);

/// The bubble: idle time / ideal time over all stages. Ideal is the time of the compute actions,
/// which stages that never wait would need: p x span / ideal - 1. With equal costs on all stages
/// and free messages: (p-1)/m for gpipe and 1f1b; (p-1)/(v m) for interleaved_1f1b if p divides m;
/// and if F, B and W cost the same, (p-1)/(3m) for ZB-H1 and, for large enough m, (p-1)/(6m) for
/// ZB-V.
double bubble(const Timeline& timeline);

/// Draws one row per stage: F, BW, B, W and WH in their colours (later chunks paler), microbatch
/// numbers where they fit, messages as a line under the row, and below it operations from issue to
/// end, with the time that the stage waits for them. A long middle is cut out, with a mark that
/// gives its length.
std::string to_svg(const Timeline& timeline);

/// Chrome's trace event format, which Perfetto reads: every event, with one thread for each stage
/// and further ones for its messages and operations.
std::string to_trace_json(const Timeline& timeline);

}  // namespace gptrain
