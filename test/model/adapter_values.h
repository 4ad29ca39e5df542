// Helpers that the tests of adapters share.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>

#include "catch.h"
#include "spec/parameter_rules.h"
#include "tiny_run.h"

namespace gptrain::test {

/// The weights of the model that is adapted, without the adapter's.
inline NamedValues adapted_values(TinyRun& run) {
    NamedValues values = run.state("weight");
    std::erase_if(values, [](const auto& entry) { return is_adapter_parameter(entry.first); });
    return values;
}

inline std::int64_t elements_of(const NamedValues& values) {
    std::int64_t sum = 0;
    for (const auto& [name, tensor] : values)
        sum += std::ssize(tensor);
    return sum;
}

/// Loss and gradients of one step are the same bits in every recompute mode, with whole and with
/// split backward. `prepare` gives a new run its weights.
inline void check_modes(RunSpec spec, const std::function<void(TinyRun&)>& prepare) {
    spec.recompute = Recompute::none;
    TinyRun kept(spec);
    prepare(kept);
    const StepBatch batch = random_batch(kept.plan(), 1);
    const double loss = kept.step(batch);
    const NamedValues gradients = kept.gradients();
    using enum ScheduleKind;
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        for (const ScheduleKind schedule : {one_f_one_b, zero_bubble}) {
            spec.recompute = recompute;
            spec.parallel.schedule = schedule;
            TinyRun other(spec);
            prepare(other);
            CHECK(other.step(batch) == loss);
            CHECK(other.gradients() == gradients);
        }
    }
}

}  // namespace gptrain::test
