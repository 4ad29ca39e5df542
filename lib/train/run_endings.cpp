// How a run ends: finished, stopped, or with an error before which its state is saved.
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/folder.h"
#include "train/replay.h"
#include "train/replicas.h"
#include "train/run.h"

namespace gptrain {
namespace {

using Clock = std::chrono::steady_clock;

/// The advice that an error adds after the state has been saved.
std::string_view way_on(ExitCode code) {
    switch (code) {
        case ExitCode::bad_input:
            return "; repair the data and set data.on_change: continue to go on from it";
        case ExitCode::numerical:
            return ", and the same command continues from it; --resume DIR goes back to an earlier "
                   "checkpoint";
        default: return ", and the same command continues from it";
    }
}

}  // namespace

ExitCode Run::finished() {
    print("finished ", report_.end_summary(state_, checkpoints_.latest()));
    return ExitCode::done;
}

ExitCode Run::stopped(Request why) {
    print("stopped (", name_of(why), ") ", report_.end_summary(state_, checkpoints_.latest()),
          "; the same command continues from there");
    return exit_code_of(why);
}

void Run::save_and_fail(const CommonError& failure) {
    record(steps_.finish());
    if (state_.step == 0) throw failure;
    const std::string what = text(failure.what(), "; the state after step ", state_.step);
    const std::filesystem::path path =
        RunPaths{spec_.output_dir}.checkpoints() / checkpoint_name(state_.step);
    try {
        if (failure.code() == ExitCode::numerical) {
            keep_checkpoints();
            state_.last.skipped_in_a_row = 0;  // the next start counts from 0
        }
        if (checkpoints_.latest() != path) save();
        wait_for_save();
        report_.ended(state_);
    } catch (const CommonError& unsaved) {
        throw CommonError(failure.code(), text(what, " could not be saved: ", unsaved.what()));
    }
    throw CommonError(failure.code(), text(what, " is saved", way_on(failure.code())));
}

void Run::keep_checkpoints() {
    checkpoints_.saver().finish_save();
    checkpoints_.keep_all();
}

void Run::check_replicas() {
    const std::string differing = differing_weights(*engine_, ranks_, plan_.mesh);
    if (differing.empty()) {
        last_equal_ = state_.step;
        return;
    }
    drop_save();
    std::string remedy;
    ranks_.run_on_first([&] {
        const auto sound = checkpoints_.newest_until(last_equal_);
        remedy = sound
                     ? text("go back to the last state in which they were equal with --resume ",
                            sound->string())
                     : "restart the run from scratch: no checkpoint is from before the difference";
    });
    throw CommonError(
        ExitCode::bug,
        text("step ", state_.step, ": ranks with replicas of the same weights differ: ", differing,
             "; after step ", last_equal_, " they were equal (faults.replica_check_interval); ",
             "check these devices, leave out the faulty one and ", ranks_.broadcast(remedy)));
}

void Run::replay(const StepBatch& batch) {
    const Clock::time_point start = Clock::now();
    const std::string differing = differing_replays(*engine_, injected_.get(), batch,
                                                    most_expert_slices(plan_), ranks_, plan_.mesh);
    if (differing.empty()) {
        last_replay_ = state_.step;
        state_.goodput.add(&TimeSpent::eval, seconds_since(start));
        steps_.begin();
        return;
    }
    drop_save();
    // Copies on the nodes are newer than the last replay, so none of them counts any more.
    checkpoints_.begin_course(state_.step);
    std::string doubt;
    ranks_.run_on_first([&] {
        const std::int64_t since = last_replay_.value_or(state_.step);
        const auto sound = checkpoints_.newest_until(since);
        const auto newest = checkpoints_.newest_until(state_.step);
        if (newest == sound) return;
        doubt = text("; ", newest->string(), " may hold wrong values, ",
                     sound ? text("and --resume ", sound->string(), " goes back to before that")
                           : "and no checkpoint is from before that");
    });
    doubt = ranks_.broadcast(doubt);
    const std::string known = last_replay_
                                  ? text("; after step ", *last_replay_, " they were equal")
                                  : "; this start has not trained a step yet";
    // The batch scripts read the names of the nodes.
    throw CommonError(doubt.empty() ? ExitCode::hang : ExitCode::bug,
                      text(differing, ": two runs of a microbatch of step ", batch.step,
                           " gave different results (faults.replay_interval)", known,
                           ": check these devices", doubt));
}

void Run::drop_save() {
    try {
        checkpoints_.saver().discard();
    } catch (const CommonError&) {
        return;
    }
}

void Run::check_directory() {
    ranks_.run_on_first([&] { directory_->require_own(); });
    const bool lost =
        directory_ && (!directory_->still_held() || is_missing(directory_->paths().spec()));
    if (ranks_.max(lost ? 1 : 0) > 0) save_and_leave();
}

void Run::save_and_leave() {
    const std::string what = text("output_dir ", spec_.output_dir.string(),
                                  ": was deleted, emptied or replaced during the run; ");
    std::optional<RunDirectory> new_directory;
    try {
        checkpoints_.saver().discard();
        ranks_.run_on_first([&] {
            if (!directory_->still_held()) new_directory.emplace(spec_.output_dir);
            const RunDirectory& held = new_directory ? *new_directory : *directory_;
            held.write_spec(checkpoints_.spec_yaml());
        });
        // The checkpoints found there now are not this run's to delete.
        checkpoints_.keep_all();
        save();
        checkpoints_.saver().wait();
    } catch (const CommonError& failure) {
        checkpoints_.saver().discard();
        throw CommonError(ExitCode::io, text(what, "the state after step ", state_.step,
                                             " could not be saved: ", failure.what()));
    }
    throw CommonError(ExitCode::io,
                      text(what, "the state after step ", state_.step,
                           " is saved there; the checkpoints and metrics that were deleted are "
                           "lost; the same command continues from this state"));
}

}  // namespace gptrain
