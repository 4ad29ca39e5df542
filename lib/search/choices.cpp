#include "search/choices.h"

#include <algorithm>

#include "base/error.h"
#include "schedule/schedule.h"
#include "spec/run_plan.h"

namespace gptrain {

bool Choices::defers_weights() const {
    return gptrain::defers_weights(parallel.schedule);
}

Choices choices_of(const RunSpec& spec) {
    GPTRAIN_CHECK(spec.training.global_batch_size, "no global batch size");
    Choices choices = {.parallel = spec.parallel,
                       .micro_batch_size = spec.training.micro_batch_size,
                       .global_batch_size = *spec.training.global_batch_size,
                       .compute = spec.precision.compute,
                       .fp8_recipe = spec.precision.fp8_recipe,
                       .grad_reduce = spec.precision.grad_reduce,
                       .recompute = spec.recompute,
                       .offload = spec.offload};
    choices.parallel.data.reset();
    // As a run would take it.
    if (choices.parallel.overlap_tensor == OverlapTensor::automatic)
        choices.parallel.overlap_tensor = OverlapTensor::off;
    return choices;
}

namespace {

/// Moves the steps of a run, and those of its learning rate, to where they have consumed as many
/// samples with another global batch size.
void change_batch(RunSpec& spec, std::int64_t global_batch_size) {
    const BatchSchedule before = {*spec.training.global_batch_size, spec.training.rampup};
    const BatchSchedule after = {global_batch_size, spec.training.rampup};
    const auto moved = [&](std::int64_t step) { return after.steps_of(before.samples_of(step)); };
    LrScheduleSpec& lr = spec.lr_schedule;
    const std::int64_t decay_end = lr.decay_steps.value_or(spec.training.steps);
    const std::int64_t wsd_begin = std::max<std::int64_t>(decay_end - lr.wsd_decay_steps, 0);
    if (lr.wsd_decay_steps > 0) {
        lr.wsd_decay_steps = std::max<std::int64_t>(moved(decay_end) - moved(wsd_begin), 1);
    }
    lr.warmup_steps = moved(lr.warmup_steps);
    if (lr.decay_steps) lr.decay_steps = moved(*lr.decay_steps);
    spec.training.steps = moved(spec.training.steps);
    spec.training.global_batch_size = global_batch_size;
}

}  // namespace

RunSpec with_choices(const RunSpec& spec, const Choices& choices) {
    RunSpec changed = spec;
    changed.parallel = choices.parallel;
    changed.training.micro_batch_size = choices.micro_batch_size;
    const std::int64_t before = spec.training.global_batch_size.value_or(choices.global_batch_size);
    if (before != choices.global_batch_size) change_batch(changed, choices.global_batch_size);
    changed.training.global_batch_size = choices.global_batch_size;
    changed.precision.compute = choices.compute;
    changed.precision.fp8_recipe = choices.fp8_recipe;
    changed.precision.grad_reduce = choices.grad_reduce;
    changed.recompute = choices.recompute;
    changed.offload = choices.offload;
    return changed;
}

}  // namespace gptrain
