#include "dry_run_time.h"

#include "base/log.h"
#include "base/text.h"
#include "search/table_text.h"

namespace gptrain {

std::string row(std::string_view name, std::string_view value) {
    return text("  ", padded_right(name, 24), padded_left(value, 16));
}

void print_time(const StepEstimate& estimate, const RunPlan& plan) {
    const StepTime& step = estimate.step;
    print("time on ", estimate.world_size, " x ", estimate.hardware, ", estimated");
    print(row("step", text(plain_seconds(step.seconds), " s")));
    print(row("tokens per second", human_count(estimate.tokens_per_second)));
    print(row("MFU", text(decimals(100 * estimate.mfu, 1), " %")), "  model FLOPs / peak");
    print(row("HFU", text(decimals(100 * estimate.hfu, 1), " %")), "  with recomputation");
    print(row(text(plan.steps, plan.steps == 1 ? " step" : " steps"),
              text(decimals(estimate.days, 2), " days")),
          "  ", decimals(estimate.device_hours, 0), " device-hours",
          estimate.cost > 0 ? text(", cost ", decimals(estimate.cost, 0)) : "",
          estimate.megawatt_hours > 0 ? text(", ", decimals(estimate.megawatt_hours, 1), " MWh")
                                      : "");
    print("seconds of a step, on the stage that ends last");
    for (int i = 0; i < spent_kinds; ++i) {
        const auto spent = static_cast<Spent>(i);
        if (step[spent] <= 0) continue;
        print(row(name_of(spent), text(plain_seconds(step[spent]), " s")), "  ",
              padded_left(fixed(100 * step[spent] / step.seconds, 1), 5), " %");
    }
}

}  // namespace gptrain
