#include "chat/template_clock.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <optional>

#include "base/text.h"

namespace gptrain {
namespace {

constexpr std::array<std::string_view, 7> days = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                  "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> months = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr const char* time_variable = "SOURCE_DATE_EPOCH";

std::optional<std::int64_t>& fixed_seconds() {
    static std::optional<std::int64_t> seconds;
    return seconds;
}

std::string padded(int number, int digits) {
    std::string word = text(number);
    while (std::ssize(word) < digits)
        word.insert(word.begin(), '0');
    return word;
}

/// The text of a directive, empty if it is not supported. `pad` is false after "%-".
std::string directive(char letter, bool pad, const std::tm& time) {
    const int hour = time.tm_hour % 12 == 0 ? 12 : time.tm_hour % 12;
    const auto& day = days[static_cast<std::size_t>(time.tm_wday)];
    const auto& month = months[static_cast<std::size_t>(time.tm_mon)];
    switch (letter) {
        case 'Y': return text(time.tm_year + 1900);
        case 'y': return padded(time.tm_year % 100, pad ? 2 : 1);
        case 'm': return padded(time.tm_mon + 1, pad ? 2 : 1);
        case 'd': return padded(time.tm_mday, pad ? 2 : 1);
        case 'j': return padded(time.tm_yday + 1, pad ? 3 : 1);
        case 'H': return padded(time.tm_hour, pad ? 2 : 1);
        case 'I': return padded(hour, pad ? 2 : 1);
        case 'M': return padded(time.tm_min, pad ? 2 : 1);
        case 'S': return padded(time.tm_sec, pad ? 2 : 1);
        case 'p': return time.tm_hour < 12 ? "AM" : "PM";
        case 'A': return std::string(day);
        case 'a': return std::string(day.substr(0, 3));
        case 'B': return std::string(month);
        case 'b': return std::string(month.substr(0, 3));
        case '%': return "%";
        default: return "";
    }
}

}  // namespace

std::int64_t template_time() {
    constexpr std::int64_t last = 253402300799;  // of the year 9999
    if (const char* given = std::getenv(time_variable)) {
        const std::int64_t seconds = parse_int(given).value_or(-1);
        return seconds <= last ? std::max<std::int64_t>(seconds, -1) : -1;
    }
    const std::time_t now = std::time(nullptr);
    std::tm time{};
    return localtime_r(&now, &time) != nullptr ? timegm(&time) : now;
}

void fix_template_time(std::int64_t seconds) {
    fixed_seconds() = seconds;
}

std::string now_text(const TemplateRun& run, std::string_view format) {
    const std::time_t seconds = fixed_seconds().value_or(template_time());
    std::tm time{};
    if (seconds < 0 || gmtime_r(&seconds, &time) == nullptr)
        run.fail("strftime_now: the environment variable ", time_variable,
                 " is no number of seconds");
    std::string out;
    for (std::size_t at = 0; at < format.size(); ++at) {
        if (format[at] != '%') {
            out += format[at];
            continue;
        }
        const bool pad = !format.substr(at).starts_with("%-");
        at += pad ? 1 : 2;
        const std::string word =
            at < format.size() ? directive(format[at], pad, time) : std::string();
        if (word.empty()) run.fail("strftime_now: a directive of '", format, "' is not supported");
        out += word;
    }
    return out;
}

}  // namespace gptrain
