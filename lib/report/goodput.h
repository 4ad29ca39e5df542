// What the time of a run went into, over all its starts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace gptrain {

/// Seconds.
struct TimeSpent {
    double useful = 0;  ///< in steps that the weights hold
    double init = 0;    ///< from the start of the program to its first step
    double load = 0;
    double save = 0;  ///< in which training stood still
    double eval = 0;
    double lost = 0;  ///< in steps that a later start had to do again, or that were rolled back

    /// All of it: the time that the run has run.
    double sum() const;
    /// The useful share of it, 0 to 1; 0 before any time is spent.
    double goodput() const;
    bool operator==(const TimeSpent&) const = default;
};

/// The parts of TimeSpent with their names, in the order of metrics.jsonl.
struct TimePart {
    std::string_view name;
    double TimeSpent::*seconds;
};
constexpr std::array<TimePart, 6> time_parts = {{{"useful", &TimeSpent::useful},
                                                 {"init", &TimeSpent::init},
                                                 {"load", &TimeSpent::load},
                                                 {"save", &TimeSpent::save},
                                                 {"eval", &TimeSpent::eval},
                                                 {"lost", &TimeSpent::lost}}};

Json to_json(const TimeSpent& spent);
/// Error (bad_input) for what is not such an object.
TimeSpent time_spent(const Json& json, const std::string& source);

/// The account of a run, which goes on from start to start. The time between two starts does not
/// count.
class Goodput {
public:
    /// `logged`: what the run last logged in this output directory, and `saved`: what the
    /// checkpoint that it goes on from holds; either may not be there. Useful seconds that were
    /// logged and are not in the checkpoint were lost.
    void begin(const std::optional<TimeSpent>& logged, const std::optional<TimeSpent>& saved);
    void add(double TimeSpent::*part, double seconds) { spent_.*part += seconds; }
    /// The weights went back to those of a checkpoint that holds this.
    void roll_back(const TimeSpent& to);

    /// What a checkpoint keeps of it.
    const TimeSpent& spent() const { return spent_; }

private:
    TimeSpent spent_;
};

/// Seconds between checkpoints that lose least to saving and to failures: sqrt(2 x stall x mean
/// time between failures) (Young 1974, doi 10.1145/361147.361115; Daly 2006).
double best_save_interval(double stall_seconds, double failure_seconds);

/// Mean seconds between failures of so many devices: 419 unplanned interruptions in 54 days on
/// 16,384 GPUs (Grattafiori et al. 2024, arXiv 2407.21783) are one in 50,000 device hours.
double expected_failure_seconds(std::int64_t devices);

}  // namespace gptrain
