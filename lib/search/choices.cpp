#include "search/choices.h"

#include "base/checked.h"
#include "base/error.h"

namespace gptrain {

Choices choices_of(const RunSpec& spec) {
    GPTRAIN_CHECK(spec.training.global_batch_size, "no global batch size");
    Choices choices = {.parallel = spec.parallel,
                       .micro_batch_size = spec.training.micro_batch_size,
                       .global_batch_size = *spec.training.global_batch_size,
                       .compute = spec.precision.compute,
                       .grad_reduce = spec.precision.grad_reduce,
                       .recompute = spec.recompute};
    choices.parallel.data.reset();
    // As a run would take it.
    if (choices.parallel.overlap_tensor == OverlapTensor::automatic)
        choices.parallel.overlap_tensor = OverlapTensor::off;
    return choices;
}

RunSpec with_choices(const RunSpec& spec, const Choices& choices) {
    RunSpec changed = spec;
    changed.parallel = choices.parallel;
    changed.training.micro_batch_size = choices.micro_batch_size;
    const std::int64_t before = spec.training.global_batch_size.value_or(choices.global_batch_size);
    if (before != choices.global_batch_size) {
        changed.training.steps =
            div_ceil(checked_mul(spec.training.steps, before), choices.global_batch_size);
    }
    changed.training.global_batch_size = choices.global_batch_size;
    changed.precision.compute = choices.compute;
    changed.precision.grad_reduce = choices.grad_reduce;
    changed.recompute = choices.recompute;
    return changed;
}

}  // namespace gptrain
