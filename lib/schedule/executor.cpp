#include "schedule/executor.h"

#include "base/at.h"

namespace gptrain {
namespace {

BackwardPart part_of(ActionKind kind) {
    switch (kind) {
        case ActionKind::backward_inputs: return BackwardPart::inputs;
        case ActionKind::backward_weights: return BackwardPart::weights;
        default: return BackwardPart::whole;
    }
}

/// True if no later action adds to the gradients that this one completes: those of its chunk
/// (without the head's weight, if that is deferred), or for WH the head's weight.
bool ends_gradients(const Schedule& schedule, std::size_t index) {
    const Action& action = schedule.actions[index];
    const ActionKind last =
        schedule.defers_weights ? ActionKind::backward_weights : ActionKind::backward;
    if (action.kind == ActionKind::head_weights) return index + 1 == schedule.actions.size();
    if (action.kind != last) return false;
    for (std::size_t later = index + 1; later < schedule.actions.size(); ++later) {
        const Action& other = schedule.actions[later];
        if (other.kind == last && other.chunk == action.chunk) return false;
    }
    return true;
}

/// This cp rank's part of whole sequences.
Microbatch local_part(const Microbatch& whole, const Stage& stage) {
    Microbatch part;
    part.first_sequence = whole.first_sequence;
    visit_fields(
        [&](const TokenField& field, auto& values, const auto& all) {
            values = field.by_sequence
                         ? all
                         : gptrain::local_part(std::span(all), stage.seq_length, stage.slices);
        },
        part, whole);
    return part;
}

}  // namespace

Executor::Executor(Stage stage, const StepRef& step, GradBuckets* buckets)
    : stage_(std::move(stage)),
      step_(step),
      grad_buckets_(buckets),
      runner_(stage_.context, stage_.memory.buffers) {}

void Executor::load(const Action& action, std::span<const Microbatch> microbatches) {
    Backend& backend = stage_.context.backend;
    const Microbatch& whole = at(microbatches, action.microbatch);
    Microbatch part;
    const bool shared = stage_.context.mesh.cp().size() > 1;
    if (shared) part = local_part(whole, stage_);
    const Microbatch& microbatch = shared ? part : whole;
    upload_batch(backend, at(stage_.memory.batches, action.slot), microbatch, stage_.stream);
    backend.upload(step_.first_sequence.slice(0, action.slot, 1),
                   std::as_bytes(std::span(&microbatch.first_sequence, 1)));
}

Pass Executor::pass(std::int64_t slot, bool training) const {
    Pass pass = {.batch = at(stage_.memory.batches, slot), .step = step_, .training = training};
    pass.step.slot = slot;
    if (training) pass.expert_slices = expert_slices_;
    return pass;
}

std::int64_t Executor::replay_key(const Action& action, bool first_gradients) const {
    const std::int64_t buffers = runner_.buffers() + 1;
    std::int64_t key = static_cast<std::int64_t>(action.kind);
    key = key * 2 + (first_gradients ? 1 : 0);
    key = key * std::ssize(stage_.chunks) + action.chunk;
    key = key * std::ssize(stage_.memory.batches) + action.slot;
    key = key * (std::ssize(stage_.memory.deferred_heads) + 1) + action.deferred_head + 1;
    key = key * buffers + action.input + 1;
    return key * buffers + action.output + 1;
}

void Executor::compute(const Schedule& schedule, std::size_t index, const Boundary& ends) {
    const Action& action = schedule.actions[index];
    const GptChunk::GradsFinal final = grads_final(schedule, index);
    const ModelContext& context = stage_.context;
    const ProfileRange range(context.backend, name_of(action.kind));
    const auto place = static_cast<std::size_t>(action.chunk);
    const GptChunk& chunk = stage_.chunks[place];
    // F computes the weight gradient of the head.
    const bool starts_head =
        action.kind == ActionKind::forward && chunk.has_head() && is_first(schedule.actions, index);
    // Every microbatch is the first in a window.
    const bool windows = grad_buckets_->by_units();
    const bool first_gradients =
        windows || starts_head || starts_gradients(schedule.actions, index);
    const SavedChunk& saved = at(stage_.memory.saved[place], action.slot);
    DeferredHead head;
    if (action.deferred_head != Action::none)
        head = at(stage_.memory.deferred_heads, action.deferred_head);
    const auto work = [&] {
        Pass now = pass(action.slot, true);
        now.first_gradients = first_gradients;
        if (windows) now.unit_grads = grad_buckets_;
        if (action.kind == ActionKind::forward) {
            chunk.forward(now, saved, ends, head);
        } else if (action.kind == ActionKind::head_weights) {
            chunk.head_weights(head, final);
        } else {
            chunk.backward(now, saved, ends, part_of(action.kind), final);
        }
    };
    // A record must not contain communication: of tp, cp or experts, of buckets and windows, or of
    // weights on their way. Nor copies beside computation.
    const Mesh& mesh = context.mesh;
    const bool alone = mesh.tp().size() == 1 && mesh.cp().size() == 1 && mesh.experts().size() == 1;
    const bool records = alone && !windows && !final && saved.hosts.empty();
    if (!records || !stage_.parameters.nothing_in_flight()) {
        work();
    } else {
        context.backend.replay(replay_key(action, first_gradients), work);
    }
}

GptChunk::GradsFinal Executor::grads_final(const Schedule& schedule, std::size_t index) {
    if (grad_buckets_->by_units() || grad_buckets_->local()) return {};
    if (!grad_buckets_->shared() || !ends_gradients(schedule, index)) return {};
    const Action& action = schedule.actions[index];
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const bool head_later = schedule.deferred_heads > 0 &&
                            action.chunk + 1 == std::ssize(stage_.chunks) &&
                            action.kind != ActionKind::head_weights;
    const ChunkRange& range = stage_.parameters.layout().chunks[chunk];
    const std::int64_t begin = head_later ? range.after_head : range.begin;
    return [this, begin](std::int64_t end) { grad_buckets_->ready({begin, end}); };
}

void Executor::train(const Schedule& schedule, std::span<const Microbatch> microbatches,
                     std::int64_t expert_slices) {
    expert_slices_ = expert_slices;
    runner_.listeners().on_step_begin();
    runner_.run(schedule, [&](std::size_t index, const Boundary& ends) {
        const Action& action = schedule.actions[index];
        if (action.kind == ActionKind::forward) load(action, microbatches);
        compute(schedule, index, ends);
    });
    grad_buckets_->finish();
    runner_.listeners().on_step_end();
}

void Executor::run_alone(const Schedule& schedule, const Microbatch& microbatch,
                         std::int64_t expert_slices, const See& see) {
    expert_slices_ = expert_slices;
    grad_buckets_->keep_local([&](const Tensor& grads) { see(Seen::result, grads); });
    runner_.run(schedule, [&](std::size_t index, const Boundary& ends) {
        const Action& action = schedule.actions[index];
        if (action.kind == ActionKind::forward) load(action, std::span(&microbatch, 1));
        if (!ends.input.empty()) see(Seen::input, ends.input);
        compute(schedule, index, ends);
        if (!ends.output.empty()) see(Seen::result, ends.output);
    });
    grad_buckets_->finish();
}

void Executor::evaluate(const Schedule& schedule, std::span<const Microbatch> microbatches,
                        const StepRef& step) {
    forward(schedule, microbatches, [&](const ForwardAction& action) {
        Pass pass = action.pass;
        pass.step = step;
        pass.step.slot = action.pass.step.slot;
        action.chunk.evaluate(pass, action.ends);
    });
}

void Executor::forward(const Schedule& schedule, std::span<const Microbatch> microbatches,
                       const ForwardWork& work) {
    runner_.run(schedule, [&](std::size_t index, const Boundary& ends) {
        const Action& action = schedule.actions[index];
        load(action, microbatches);
        work({.chunk = at(stage_.chunks, action.chunk),
              .pass = pass(action.slot, false),
              .ends = ends,
              .microbatch = static_cast<std::size_t>(action.microbatch)});
    });
}

}  // namespace gptrain
