// How a run reacts to a loss that stays high and to a lost output directory.
#include <limits>

#include "base/log.h"
#include "train/run.h"

namespace gptrain {

void Run::warn_of_high_loss() {
    const std::optional<double> mean = high_loss_.add(step_, mean_loss());
    if (!mean || !reports_) return;
    warn("step ", step_, ": the mean loss of the last ", HighLoss::window, " steps, ",
         fixed(*mean, 4),
         ", is above that of guessing, ln(vocab_size) = ", fixed(high_loss_.guessing(), 4),
         ": the model does not learn; lower optimizer.lr (now ", state_.learning_rate,
         "), lengthen lr_schedule.warmup_steps, or look at the data");
}

void Run::check_directory() {
    const bool lost = directory_ && !directory_->in_place();
    if (ranks_.largest(lost ? 1 : 0) > 0) leave_lost_directory();
}

void Run::leave_lost_directory() {
    const std::string what = text("output_dir ", paths_.folder.string(),
                                  ": was deleted or replaced while the run was under way; ");
    std::optional<RunDirectory> anew;
    try {
        saver_->forget();
        ranks_.first_alone([&] {
            anew.emplace(paths_.folder);
            anew->write_spec(effective_yaml_);
        });
        // Keep all checkpoints: those found there now are not this run's to delete.
        constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();
        saver_ = make_saver({paths_.checkpoints(), all, 0}, false);
        save();
        saver_->wait();
    } catch (const CommonError& failure) {
        saver_->forget();
        throw CommonError(ExitCode::io, text(what, "the state after step ", step_,
                                             " could not be saved: ", failure.what()));
    }
    throw CommonError(ExitCode::io, text(what, "the state after step ", step_,
                                         " is saved in a new one, earlier checkpoints and metrics "
                                         "are gone; the same command goes on from there"));
}

}  // namespace gptrain
