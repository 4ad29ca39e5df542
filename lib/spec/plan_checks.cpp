#include "spec/plan_checks.h"

#include "spec/run_spec.h"

namespace gptrain {

void require_multiple(std::string_view a_key, std::int64_t a, std::string_view b_key,
                      std::int64_t b) {
    const std::int64_t below = a / b * b;
    require(a % b == 0, a_key, " ", a, " is not a multiple of ", b, ", ", b_key, "; set ", a_key,
            " to ", below > 0 ? text(below, " or ") : "", below + b, ", or change the latter");
}

void check_int8_training(const RunSpec& spec) {
    if (spec.precision.frozen != FrozenWeights::int8 || spec.adapter) return;
    const std::string message =
        "precision.frozen: int8 is for the model of an adapter, but this run has none, so all its "
        "matrices stay as they are; set adapter or remove precision.frozen";
    fail(ExitCode::usage, located(spec.locations.of(message), message));
}

std::string located(const std::string& location, std::string_view message) {
    constexpr std::string_view setting = "--set ";
    if (location.empty()) return std::string(message);
    const bool again =
        location.starts_with(setting) && message.starts_with(location.substr(setting.size()) + ":");
    return again ? text(setting, message) : text(location, ": ", message);
}

}  // namespace gptrain
