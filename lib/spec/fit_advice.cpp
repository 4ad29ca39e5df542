#include "spec/fit_advice.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"

namespace gptrain {
namespace {

/// The plan with only enough microbatches to fill the pipeline. More would not need more memory,
/// except with gpipe, which keeps the activations of all.
RunPlan with_few_microbatches(RunPlan plan) {
    if (plan.schedule == ScheduleKind::gpipe) return plan;
    const std::int64_t enough = 4 * plan.mesh.pipeline * plan.virtual_stages;
    if (plan.microbatches(plan.batch.global_batch_size) <= enough) return plan;
    plan.batch = {.global_batch_size = enough * plan.micro_batch_size * plan.mesh.data,
                  .rampup = {}};
    return plan;
}

std::vector<std::int64_t> divisors(std::int64_t number) {
    std::vector<std::int64_t> all;
    for (std::int64_t n = 1; n <= number / n; ++n) {
        if (number % n != 0) continue;
        all.push_back(n);
        if (n != number / n) all.push_back(number / n);
    }
    std::sort(all.begin(), all.end());
    return all;
}

class FitSearch {
public:
    FitSearch(const RunSpec& spec, const PlanTarget& target, const Fits& fits)
        : spec_(spec), target_(target), fits_(fits) {}

    /// The largest micro batch size that fits, at most the spec's own; 0 if none fits. If the spec
    /// gives no global batch size, that follows from the micro batch size.
    std::int64_t largest_micro_batch(Recompute recompute) const {
        const std::int64_t own = spec_.training.micro_batch_size;
        if (!spec_.training.global_batch_size) {
            return largest_that_fits(1, own, [&](std::int64_t n) { return fits(n, recompute); });
        }
        std::vector<std::int64_t> sizes = divisors(*spec_.training.global_batch_size);
        std::erase_if(sizes, [&](std::int64_t n) { return n > own || !plan_of(n, recompute); });
        const std::int64_t found = largest_that_fits(0, std::ssize(sizes) - 1, [&](std::int64_t i) {
            return fits(sizes[static_cast<std::size_t>(i)], recompute);
        });
        return found < 0 ? 0 : sizes[static_cast<std::size_t>(found)];
    }

private:
    RunSpec spec_with(std::int64_t micro_batch_size, Recompute recompute) const {
        RunSpec spec = spec_;
        spec.training.micro_batch_size = micro_batch_size;
        spec.recompute = recompute;
        return spec;
    }
    /// Empty if the changed spec is invalid.
    std::optional<RunPlan> plan_of(std::int64_t micro_batch_size, Recompute recompute) const {
        try {
            return make_plan(spec_with(micro_batch_size, recompute), target_);
        } catch (const Error&) {
            return std::nullopt;
        }
    }
    bool fits(std::int64_t micro_batch_size, Recompute recompute) const {
        const auto plan = plan_of(micro_batch_size, recompute);
        return plan && fits_(with_few_microbatches(*plan));
    }

    const RunSpec& spec_;
    const PlanTarget& target_;
    const Fits& fits_;
};

}  // namespace

std::int64_t largest_that_fits(std::int64_t low, std::int64_t high,
                               const std::function<bool(std::int64_t)>& fits) {
    while (low <= high) {
        const std::int64_t middle = low + (high - low) / 2;
        if (fits(middle)) {
            low = middle + 1;
        } else {
            high = middle - 1;
        }
    }
    return high;
}

std::string fit_advice(const RunSpec& spec, const PlanTarget& target, const Fits& fits) {
    const FitSearch search(spec, target, fits);
    std::string options;
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        if (recompute < spec.recompute) continue;
        const std::int64_t size = search.largest_micro_batch(recompute);
        if (size < 1) continue;
        options += text(options.empty() ? "" : ", or ");
        if (size < spec.training.micro_batch_size)
            options += text("training.micro_batch_size ", size);
        if (recompute == spec.recompute) continue;
        options += text(size < spec.training.micro_batch_size ? " with " : "", "recompute ",
                        name_of(recompute));
    }
    if (!options.empty()) return text("what would fit: ", options);
    return "nothing would fit, not even training.micro_batch_size 1 with recompute full: use "
           "fewer or narrower layers, a smaller training.seq_length, or more devices "
           "(parallel.tensor, parallel.pipeline)";
}

}  // namespace gptrain
