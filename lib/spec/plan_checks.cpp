#include "spec/plan_checks.h"

namespace gptrain {

void require_multiple(std::string_view a_key, std::int64_t a, std::string_view b_key,
                      std::int64_t b) {
    const std::int64_t below = a / b * b;
    require(a % b == 0, a_key, " ", a, " is not a multiple of ", b, ", ", b_key, "; set ", a_key,
            " to ", below > 0 ? text(below, " or ") : "", below + b, ", or change the latter");
}

std::string located(const std::string& location, std::string_view message) {
    constexpr std::string_view setting = "--set ";
    if (location.empty()) return std::string(message);
    const bool again =
        location.starts_with(setting) && message.starts_with(location.substr(setting.size()) + ":");
    return again ? text(setting, message) : text(location, ": ", message);
}

}  // namespace gptrain
