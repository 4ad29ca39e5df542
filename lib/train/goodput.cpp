#include "train/goodput.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace gptrain {

double TimeSpent::sum() const {
    double seconds = 0;
    for (const TimePart& part : time_parts)
        seconds += this->*part.seconds;
    return seconds;
}

double TimeSpent::useful_share() const {
    const double seconds = sum();
    return seconds > 0 ? useful / seconds : 0;
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

void Goodput::begin(double now, const std::optional<TimeSpent>& logged,
                    const std::optional<Record>& saved) {
    const TimeSpent kept = saved ? saved->spent : TimeSpent{};
    const TimeSpent before = logged.value_or(kept);
    TimeSpent& spent = record_.spent;
    // A line is logged before the evaluation and the save of its step.
    for (const TimePart& part : time_parts)
        spent.*part.seconds = std::max(before.*part.seconds, kept.*part.seconds);
    spent.useful = kept.useful;
    spent.lost = std::max(before.useful + before.lost, kept.useful + kept.lost) - kept.useful;
    record_.first_start = saved ? saved->first_start : now - before.sum();
}

void Goodput::roll_back(const Record& to) {
    TimeSpent& spent = record_.spent;
    spent.lost += spent.useful - to.spent.useful;
    spent.useful = to.spent.useful;
}

std::string Goodput::summary(double now) const {
    const TimeSpent& spent = record_.spent;
    const double wall = std::max(now - record_.first_start, spent.sum());
    std::string line =
        text("goodput ", fixed(wall > 0 ? 100 * spent.useful / wall : 0, 1),
             " %: ", human_time(spent.useful), " of ", human_time(wall), " since the first start");
    std::string_view separator = "; ";
    for (const TimePart& part : time_parts) {
        if (part.seconds == &TimeSpent::useful) continue;
        line += text(separator, part.name, " ", human_time(spent.*part.seconds));
        separator = ", ";
    }
    return line + text(separator, "not running ", human_time(wall - spent.sum()));
}

double best_save_interval(double stall_seconds, double failure_seconds) {
    return std::sqrt(2 * stall_seconds * failure_seconds);
}

double expected_failure_seconds(std::int64_t devices) {
    constexpr double device_hours = 50'000;
    return device_hours * 3600 / static_cast<double>(devices);
}

}  // namespace gptrain
