#include "search/measured.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "search/table_text.h"

namespace gptrain {
namespace {

double per_sample(const Measured& measured) {
    return measured.time.seconds / static_cast<double>(measured.found.choices.global_batch_size);
}

bool failed(const Measured& measured) {
    return !measured.time.failure.empty();
}

/// Estimated over measured, minus 1.
double error_of(const Measured& measured) {
    return measured.found.estimate.step.seconds / measured.time.seconds - 1;
}

constexpr std::array<std::size_t, 5> measured_widths = {3, 12, 10, 12, 9};

std::string measured_row(const std::array<std::string, 5>& cells, std::string_view settings) {
    return row_of_cells(cells, measured_widths, settings);
}

/// How much slower the estimated best is than the measured best.
std::string verdict(const std::vector<Measured>& measured) {
    const auto end = std::find_if(measured.begin(), measured.end(), failed);
    if (end - measured.begin() < 2) return "";
    const auto estimated =
        std::min_element(measured.begin(), end, [](const Measured& a, const Measured& b) {
            return a.found.seconds_per_sample() < b.found.seconds_per_sample();
        });
    return text("the estimated best is ",
                fixed(100 * (per_sample(*estimated) / per_sample(measured.front()) - 1), 1),
                " % slower than the measured best\n");
}

}  // namespace

void sort_measured(std::vector<Measured>& measured) {
    std::stable_sort(measured.begin(), measured.end(), [](const Measured& a, const Measured& b) {
        return std::pair(failed(a), per_sample(a)) < std::pair(failed(b), per_sample(b));
    });
}

double measured_ratio(const std::vector<Measured>& measured) {
    double sum = 0;
    int count = 0;
    for (const Measured& each : measured) {
        if (failed(each)) continue;
        sum += std::log(each.time.seconds / each.found.estimate.step.seconds);
        ++count;
    }
    return count == 0 ? 1 : std::exp(sum / count);
}

std::string to_text(const std::vector<Measured>& measured) {
    std::string out =
        measured_row({"#", "measured s", "spread %", "estimate s", "error %"}, "settings");
    for (std::size_t i = 0; i < measured.size(); ++i) {
        const Measured& each = measured[i];
        const std::string estimate = plain_seconds(each.found.estimate.step.seconds);
        const std::string settings = describe_fully(each.found);
        if (failed(each)) {
            out += measured_row({"-", "failed", "", estimate, ""}, settings);
            out += text("       ", each.time.failure, "\n");
            continue;
        }
        out += measured_row(
            {text(i + 1), plain_seconds(each.time.seconds), fixed(100 * each.time.spread, 1),
             estimate, fixed(100 * error_of(each), 1)},
            settings);
    }
    return out + verdict(measured);
}

std::string to_json(const std::vector<Measured>& measured, const SearchContext& context) {
    Json all = Json::array();
    for (const Measured& each : measured) {
        Json one = json_of(each.found);
        one["measured_seconds"] = failed(each) ? Json() : Json(each.time.seconds);
        one["measured_spread"] = failed(each) ? Json() : Json(each.time.spread);
        one["failure"] = failed(each) ? Json(each.time.failure) : Json();
        all.push_back(std::move(one));
    }
    const Json json = {{"hardware", context.hardware.name},
                       {"calibrated", context.hardware.calibrated},
                       {"world_size", context.target.world_size},
                       {"measured_over_estimated", measured_ratio(measured)},
                       {"measured", std::move(all)}};
    return to_line(json) + "\n";
}

}  // namespace gptrain
