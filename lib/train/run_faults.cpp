// How a run reacts to a loss that stays high and to a lost output directory.
#include <limits>

#include "base/log.h"
#include "train/run.h"

namespace gptrain {

void Run::warn_of_high_loss() {
    const std::optional<double> mean = high_loss_.add(step_, mean_loss());
    if (!mean || !reports_) return;
    warn("step ", step_, ": the mean loss of the last ", HighLoss::window, " steps, ",
         fixed(*mean, 4), ", is above that of random guessing, ln(vocab_size) = ",
         fixed(high_loss_.guessing_loss(), 4),
         ": the model is not learning; lower optimizer.lr (now ", state_.learning_rate,
         "), lengthen lr_schedule.warmup_steps, or check the data");
}

void Run::check_directory() {
    const bool lost = directory_ && !directory_->still_held();
    if (ranks_.max(lost ? 1 : 0) > 0) save_and_leave();
}

void Run::save_and_leave() {
    const std::string what =
        text("output_dir ", paths_.folder.string(), ": was deleted or replaced during the run; ");
    std::optional<RunDirectory> new_directory;
    try {
        saver_->discard();
        ranks_.run_on_first([&] {
            new_directory.emplace(paths_.folder);
            new_directory->write_spec(effective_yaml_);
        });
        // Keep all checkpoints: those found there now are not this run's to delete.
        constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();
        saver_ = make_saver({paths_.checkpoints(), all, 0}, false);
        save();
        saver_->wait();
    } catch (const CommonError& failure) {
        saver_->discard();
        throw CommonError(ExitCode::io, text(what, "the state after step ", step_,
                                             " could not be saved: ", failure.what()));
    }
    throw CommonError(ExitCode::io,
                      text(what, "the state after step ", step_,
                           " is saved in a new directory; earlier checkpoints and "
                           "metrics are lost; the same command continues from there"));
}

}  // namespace gptrain
