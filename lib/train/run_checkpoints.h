// The checkpoints of one start of a run.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/local_copies.h"
#include "checkpoint/restart_point.h"
#include "checkpoint/saver.h"
#include "engine/engine.h"
#include "metrics/run_directory.h"
#include "stored/saved_run.h"
#include "train/run_inputs.h"
#include "train/run_state.h"

namespace gptrain {

/// Error (usage) if no rank can ever write into a folder for copies. All ranks call it.
void check_local_folders(const RunSpec& spec, const MpiSession& ranks);

/// The newest copies of each tier that the run may continue from. If the last two starts ended
/// after the same step, those that the second one began with are left out, with a warning. All
/// ranks call it.
std::vector<LocalRestart> find_local_copies(const RunSpec& spec, const RunPlan& plan,
                                            const MpiSession& ranks);

/// The host memory that earlier copies in memory take from this node, for each of its ranks. It
/// becomes free as new ones replace them. All ranks call it.
std::int64_t memory_of_copies(const RunSpec& spec, const RunPlan& plan, const MpiSession& ranks);

/// All ranks construct and call it together. The references must outlive it.
class RunCheckpoints {
public:
    /// `effective`: the spec in force, which checkpoints contain. `may_write`, `failed`: those of
    /// SaverOptions.
    RunCheckpoints(const RunInputs& inputs, const RunSpec& effective, Engine& engine,
                   const MpiSession& ranks, std::function<void()> may_write,
                   std::function<void(const std::string&)> failed);

    /// The effective spec as YAML.
    const std::string& spec_yaml() const { return spec_yaml_; }
    /// The newest checkpoint loaded or started to save in this start.
    const std::filesystem::path& latest() const { return latest_; }

    /// Finds out before the first step whether checkpoints can be saved (CheckpointSaver::prepare).
    void prepare() { saver_->prepare(state_source()); }
    /// Loads weights, optimizer state and `run`, except for its goodput, which is only returned.
    SavedRun load(RestartPoint& checkpoint, RunState& run);
    /// The newest valid checkpoint of this start's course: of those that it came from or saved. The
    /// folder may hold others, of a course that the run has left.
    std::optional<RestartPoint> find_newest() const;
    /// On rank 0: the newest checkpoint of this course that is of step `step` or earlier,
    /// unverified.
    std::optional<std::filesystem::path> newest_until(std::int64_t step) const;
    /// Saves weights, optimizer state and `run`; asynchronously if the spec asks for it.
    void save(const RunState& run);
    /// From now on saves are synchronous and remove no checkpoint.
    void keep_all();
    /// For poll() and wait(). keep_all() replaces the saver.
    CheckpointSaver& saver() { return *saver_; }
    /// The seconds of this start's longest save; before the first one, those of the checkpoint that
    /// was loaded. 0 if neither is known.
    double save_seconds() const {
        return saver_->longest_save() > 0 ? saver_->longest_save() : loaded_save_seconds_;
    }
    /// True if copies of this step are due. With a checkpoint of the step only copies in memory
    /// are: loading them is faster.
    bool copies_due(std::int64_t step, bool with_checkpoint) const;
    /// Saves the copies that are due.
    void save_copies(const RunState& run, bool with_checkpoint);
    /// Those of LocalCopies, of every tier.
    void poll_copies();
    void finish_copies();
    /// The newest checkpoint is that of the run's end: copies in memory are removed.
    void release_memory();
    /// From now on only copies made later count, plus those that `course` names, whose id is
    /// ignored; the state is that after `step`. If the output directory cannot be written, a
    /// warning: no copies are made until it can.
    void begin_course(std::int64_t step, LocalCourse course = {});

private:
    /// A folder on each node for copies, and how often they are made.
    struct Tier {
        std::int64_t interval = 0;
        std::unique_ptr<LocalCopies> copies;
    };

    static bool is_due(const Tier& tier, std::int64_t step, bool with_checkpoint);
    StateSource state_source() {
        return [this](const StateVisitor& visitor) { engine_.visit(visitor); };
    }
    /// Error if a checkpoint older than the one chosen first cannot take its place.
    void check_older(const CheckpointMeta& meta, const std::string& folder) const;
    CheckpointMeta meta_of(const RunState& run) const;
    /// The loss scale of a run with another precision does not suit this one.
    void adapt_loss_scale(StepState& state, const std::string& saved_spec) const;
    /// The checkpoints of this course, newest first; retention has removed the oldest.
    std::vector<std::filesystem::path> remaining() const;
    /// On rank 0: the step of the course's newest checkpoint, if it is in the output directory.
    std::optional<std::int64_t> newest_own() const;
    /// Writes which local copies count. False if the disk refuses it.
    bool note_course();
    std::unique_ptr<CheckpointSaver> make_saver(const Retention& retention, bool async);

    const RunSpec& effective_;
    std::string spec_yaml_;
    const Json& identity_;
    const std::optional<PeerAxes> peer_axes_;
    std::optional<DataPhase> changed_to_;  ///< if this start changes the data
    std::vector<WholeFile> files_;         ///< included in every checkpoint
    RunPaths paths_;
    Engine& engine_;
    const MpiSession& ranks_;
    std::function<void()> may_write_;
    std::function<void(const std::string&)> failed_;
    std::filesystem::path latest_;
    double loaded_save_seconds_ = 0;  ///< how long the save of the loaded checkpoint took
    std::vector<std::filesystem::path> course_;  ///< on rank 0: its checkpoints, newest first
    std::vector<Tier> tiers_;
    std::optional<LocalCourse> unnoted_;  ///< a course that is not yet noted
    /// Destroyed first: it finishes a save, and reports it to the members above.
    std::unique_ptr<CheckpointSaver> saver_;
};

}  // namespace gptrain
