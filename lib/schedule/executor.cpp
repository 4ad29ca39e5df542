#include "schedule/executor.h"

namespace gptrain {
namespace {

BackwardPart part_of(ActionKind kind) {
    switch (kind) {
        case ActionKind::backward_inputs: return BackwardPart::inputs;
        case ActionKind::backward_weights: return BackwardPart::weights;
        default: return BackwardPart::whole;
    }
}

}  // namespace

StepRef Executor::at_slot(std::int64_t slot) const {
    StepRef step = step_;
    step.slot = slot;
    return step;
}

StepRef Executor::load(const Microbatch& microbatch, std::int64_t slot) {
    chunk_.load(slot, microbatch);
    backend_.upload(step_.first_sequence.slice(0, slot, 1),
                    std::as_bytes(std::span(&microbatch.first_sequence, 1)));
    return at_slot(slot);
}

void Executor::act(ActionKind kind, std::int64_t slot, const GptChunk::GradsFinal& final) {
    const ProfileRange range(backend_, name_of(kind));
    const auto work = [&] {
        if (kind == ActionKind::forward) {
            chunk_.forward(at_slot(slot));
        } else {
            chunk_.backward(at_slot(slot), part_of(kind), final);
        }
    };
    if (!alone_ || final) {
        work();
        return;
    }
    constexpr std::int64_t kinds = 4;
    backend_.replay(slot * kinds + static_cast<std::int64_t>(kind), work);
}

void Executor::train(const Schedule& schedule, std::span<const Microbatch> microbatches) {
    for (const Action& action : schedule.actions) {
        if (action.kind == ActionKind::forward) {
            load(microbatches[static_cast<std::size_t>(action.microbatch)], action.slot);
        }
        GptChunk::GradsFinal final;
        // The last action adds the last gradients.
        if (action == schedule.actions.back() && buckets_.shared())
            final = [this](std::int64_t end) { buckets_.ready_to(end); };
        act(action.kind, action.slot, final);
    }
    buckets_.finish();
}

void Executor::evaluate(std::span<const Microbatch> microbatches) {
    for (const Microbatch& microbatch : microbatches) {
        const StepRef step = load(microbatch, 0);
        chunk_.evaluate(chunk_.batch(0), step);
    }
}

}  // namespace gptrain
