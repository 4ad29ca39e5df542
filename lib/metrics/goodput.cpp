#include "metrics/goodput.h"

#include <algorithm>
#include <cmath>

namespace gptrain {

double TimeSpent::sum() const {
    double seconds = 0;
    for (const TimePart& part : time_parts)
        seconds += this->*part.seconds;
    return seconds;
}

double TimeSpent::goodput() const {
    const double all = sum();
    return all > 0 ? useful / all : 0;
}

Json to_json(const TimeSpent& spent) {
    Json json = Json::object();
    for (const TimePart& part : time_parts)
        json[std::string(part.name)] = spent.*part.seconds;
    return json;
}

TimeSpent time_spent(const Json& json, const std::string& source) {
    const JsonReader reader(json, source);
    TimeSpent spent;
    for (const TimePart& part : time_parts)
        spent.*part.seconds = reader.number(std::string(part.name));
    return spent;
}

void Goodput::begin(const std::optional<TimeSpent>& logged, const std::optional<TimeSpent>& saved) {
    const TimeSpent kept = saved.value_or(TimeSpent{});
    const TimeSpent before = logged.value_or(kept);
    // A step's line is logged before its evaluation and save, so the checkpoint may have more of
    // these.
    for (const TimePart& part : time_parts)
        spent_.*part.seconds = std::max(before.*part.seconds, kept.*part.seconds);
    spent_.useful = kept.useful;
    spent_.lost = std::max(before.useful + before.lost, kept.useful + kept.lost) - kept.useful;
}

void Goodput::roll_back(const TimeSpent& to) {
    spent_.lost += spent_.useful - to.useful;
    spent_.useful = to.useful;
}

double best_save_interval(double stall_seconds, double failure_seconds) {
    return std::sqrt(2 * stall_seconds * failure_seconds);
}

double expected_failure_seconds(std::int64_t devices) {
    constexpr double device_hours = 50'000;
    return device_hours * 3600 / static_cast<double>(devices);
}

}  // namespace gptrain
