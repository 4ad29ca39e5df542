// Where a run's time went, over all its starts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace gptrain {

/// All times in seconds.
struct TimeSpent {
    double useful = 0;  ///< steps whose updates are in the weights
    double init = 0;    ///< from the start of the program to its first step
    double load = 0;
    double save = 0;  ///< while training was stalled
    double eval = 0;
    double lost = 0;  ///< steps that a later start repeated, or that were rolled back

    /// Total running time.
    double sum() const;
    /// Useful fraction of the total, 0 to 1; 0 if no time has been spent.
    double goodput() const;
    bool operator==(const TimeSpent&) const = default;
};

/// A member of TimeSpent and its name, in the order of metrics.jsonl.
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
/// Anything other than such an object is an Error (bad_input).
TimeSpent time_spent(const Json& json, const std::string& source);

/// The time account of a run, continued at each start. Time between two starts does not count.
class Goodput {
public:
    /// `logged`: the last account logged in this output directory. `saved`: the account in the
    /// checkpoint that the run resumes from. Either may be absent. Useful seconds that were logged
    /// but are not in the checkpoint count as lost.
    void begin(const std::optional<TimeSpent>& logged, const std::optional<TimeSpent>& saved);
    void add(double TimeSpent::*part, double seconds) { spent_.*part += seconds; }
    /// The weights were rolled back to a checkpoint with this account.
    void roll_back(const TimeSpent& to);

    /// The account, which also goes into checkpoints.
    const TimeSpent& spent() const { return spent_; }

private:
    TimeSpent spent_;
};

/// The number of seconds between checkpoints that minimises the time lost to saving and to
/// failures: sqrt(2 x stall x mean time between failures) (Young 1974, doi 10.1145/361147.361115;
/// Daly 2006).
double best_save_interval(double stall_seconds, double failure_seconds);

/// Mean time between failures of this number of devices: 419 unplanned interruptions in 54 days on
/// 16,384 GPUs (Grattafiori et al. 2024, arXiv 2407.21783), which is one in 50,000 device hours.
double expected_failure_seconds(std::int64_t devices);

}  // namespace gptrain
