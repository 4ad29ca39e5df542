#include "spec/step_plan.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "spec/plan_checks.h"

namespace gptrain {
namespace {

/// A step's sequences must be whole microbatches, at least one for each data rank.
void check_batch(std::string_view key, std::int64_t sequences, std::int64_t micro_batch_size,
                 std::int64_t data_ranks) {
    require_multiple(key, sequences, "training.micro_batch_size", micro_batch_size);
    require(sequences >= micro_batch_size * data_ranks, key, " ", sequences,
            " has too few microbatches of training.micro_batch_size ", micro_batch_size, " for ",
            data_ranks, " data ranks, each of which needs one; raise it to at least ",
            micro_batch_size * data_ranks, ", lower the latter, or use fewer data ranks");
}

BatchSchedule batch_schedule(const TrainingSpec& training, std::int64_t data_ranks) {
    const std::int64_t size = training.micro_batch_size;
    BatchSchedule batch = {training.global_batch_size.value_or(size * data_ranks), training.rampup};
    check_batch("training.global_batch_size", batch.global_batch_size, size, data_ranks);
    const RampupSpec& rampup = batch.rampup;
    if (rampup.samples == 0) return batch;
    check_batch("training.rampup.start", rampup.start, size, data_ranks);
    require_multiple("training.rampup.increment", rampup.increment, "training.micro_batch_size",
                     size);
    const std::int64_t rise = batch.global_batch_size - rampup.start;
    require(rise >= 0, "training.rampup.start ", rampup.start,
            " is above training.global_batch_size ", batch.global_batch_size, "; lower it");
    require(rise % rampup.increment == 0, "training.rampup.increment ", rampup.increment,
            " does not divide training.global_batch_size ", batch.global_batch_size,
            " - training.rampup.start ", rampup.start, " = ", rise, "; change one of them");
    return batch;
}

/// In a run with few steps, warmup takes all steps, but leaves one for the decay of wsd. The decay
/// takes the rest.
void shorten(LrSchedule& lr) {
    const std::int64_t min_decay = std::min<std::int64_t>(lr.wsd_decay_steps, 1);
    lr.warmup_steps = std::min(lr.warmup_steps, lr.decay_steps - min_decay);
    lr.wsd_decay_steps = std::min(lr.wsd_decay_steps, lr.decay_steps - lr.warmup_steps);
}

LrSchedule lr_schedule(const RunSpec& spec) {
    const LrScheduleSpec& schedule = spec.lr_schedule;
    LrSchedule lr = {schedule.kind,
                     spec.optimizer.lr,
                     schedule.min_lr,
                     schedule.warmup_steps,
                     schedule.decay_steps.value_or(spec.training.steps),
                     schedule.wsd_decay_steps};
    require(lr.min_lr <= lr.lr, "lr_schedule.min_lr ", lr.min_lr, " is above optimizer.lr ", lr.lr,
            "; lower it");
    const bool wsd = lr.kind == LrKind::wsd;
    require(wsd == (lr.wsd_decay_steps > 0), "lr_schedule.wsd_decay_steps ", lr.wsd_decay_steps,
            " is invalid with lr_schedule.kind ", name_of(lr.kind),
            wsd ? "; set it to at least 1" : "; set it to 0 or the kind to wsd");
    if (!schedule.decay_steps) shorten(lr);
    require(lr.warmup_steps <= lr.decay_steps, "lr_schedule.warmup_steps ", lr.warmup_steps,
            " is above lr_schedule.decay_steps ", lr.decay_steps,
            "; lower it or raise lr_schedule.decay_steps");
    require(lr.wsd_decay_steps <= lr.decay_steps - lr.warmup_steps, "lr_schedule.wsd_decay_steps ",
            lr.wsd_decay_steps, " is above lr_schedule.decay_steps ", lr.decay_steps,
            " - lr_schedule.warmup_steps ", lr.warmup_steps, "; lower it");
    return lr;
}

/// Reports what `shorten` did; empty if nothing.
std::string shortening_note(const LrScheduleSpec& spec, const LrSchedule& lr) {
    std::string changes;
    const auto compare = [&](std::string_view key, std::int64_t given, std::int64_t taken) {
        if (given == taken) return;
        changes += text(changes.empty() ? "" : " and ", "lr_schedule.", key, " shortened from ",
                        given, " to ", taken);
    };
    compare("warmup_steps", spec.warmup_steps, lr.warmup_steps);
    compare("wsd_decay_steps", spec.wsd_decay_steps, lr.wsd_decay_steps);
    if (changes.empty()) return "";
    return text(changes, ", because training.steps is ", lr.decay_steps);
}

}  // namespace

void set_steps(RunPlan& plan, const RunSpec& spec) {
    const std::int64_t rows = plan.micro_batch_size * plan.seq_length;
    require(rows <= std::numeric_limits<std::int32_t>::max(), "training.micro_batch_size ",
            plan.micro_batch_size, " x training.seq_length ", plan.seq_length, " = ", rows,
            " tokens is above 2^31 - 1; lower one of them");
    plan.batch = batch_schedule(spec.training, plan.mesh.data);
    plan.lr = lr_schedule(spec);
    plan.shortening_note = shortening_note(spec.lr_schedule, plan.lr);
    plan.steps = spec.training.steps;
    plan.num_samples = spec.data.num_samples;
    const std::int64_t samples = plan.batch.samples_of(plan.steps);
    require(samples <= std::numeric_limits<std::int64_t>::max() / plan.seq_length,
            "training.steps ", plan.steps, " x training.global_batch_size ",
            plan.batch.global_batch_size, " x training.seq_length ", plan.seq_length,
            " is above 2^63 - 1 tokens; lower one of them");
}

}  // namespace gptrain
