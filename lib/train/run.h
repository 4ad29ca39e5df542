// One start of a run: the loop over steps, evaluations and checkpoints.
//
// The loop (run.cpp) decides what is due after each step. StepRunner issues the steps,
// NumericalFaults judges their results, RunCheckpoints saves and loads, and RunReport reports; all
// of them share RunState.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batch_loader.h"
#include "engine/engine.h"
#include "engine/measure.h"
#include "metrics/run_directory.h"
#include "stored/initial_weights.h"
#include "train/injected_faults.h"
#include "train/numerical_faults.h"
#include "train/requests.h"
#include "train/run_checkpoints.h"
#include "train/run_devices.h"
#include "train/run_inputs.h"
#include "train/run_report.h"
#include "train/run_state.h"
#include "train/step_runner.h"

namespace gptrain {

/// All ranks construct and call it together. The references must outlive it.
class Run {
public:
    /// Only rank 0 has a `directory`; it prints and writes for all. `cost` is the cost of one step
    /// on this rank.
    Run(const RunInputs& inputs, const std::optional<RunDirectory>& directory,
        const RunDevices& devices, const StepCost& cost);
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    /// Resumes from a checkpoint, or initialises the model, with the `initial` weights if there are
    /// any.
    void start(std::optional<RestartPoint>& checkpoint, std::optional<InitialWeights>& initial);
    /// Trains until the last step or a request to stop. `requests` must outlive the call.
    ExitCode run(const Requests& requests);

private:
    static bool due(std::int64_t interval, std::int64_t step) {
        return interval > 0 && step % interval == 0;
    }
    /// The evaluations to make after a step.
    struct Evaluations {
        bool validation = false;  ///< the loss on the validation data
        bool tasks = false;
        bool any() const { return validation || tasks; }
    };
    Evaluations evaluations_due(std::int64_t step) const;
    /// The evaluations due after the last step that are not in metrics.jsonl.
    Evaluations evaluations_missing() const;
    bool replica_check_due(std::int64_t step) const {
        const Mesh& mesh = devices_.mesh;
        const bool copied = mesh.dp_cp().size() > 1 || mesh[Axis::expert_copies].size() > 1;
        return copied && due(spec_.faults.replica_check_interval, step);
    }
    bool replays() const { return spec_.faults.replay_interval > 0; }
    /// True if a microbatch of this step runs twice after it, so that a checkpoint of it is that of
    /// devices that compute right.
    bool replay_due(std::int64_t step) const {
        return replays() && (step == plan_.steps || due(spec_.faults.replay_interval, step) ||
                             due(spec_.checkpoint.interval, step));
    }
    /// True if what follows the step in flight needs its results.
    bool results_due() const;
    /// The most urgent request of any rank, the same on all.
    Request request() const;
    /// The run has done what was requested.
    void clear_request(Request request) const;

    /// Makes the engine and the injected faults, and opens the reports.
    std::unique_ptr<Engine> make_engine(const StepCost& cost);
    /// Loads the weights of step 0.
    void load_initial(InitialWeights& initial);
    /// The seconds of training that the last failure cost; `saved`: the checkpoint's account.
    double lost_work(const std::optional<TimeSpent>& saved) const;
    /// Reports the work that the last failure cost, if any.
    void report_lost_work(const std::optional<TimeSpent>& saved) const;
    std::unique_ptr<BatchLoader> training_loader() const;
    void start_reports();
    /// The loop. `run` then closes the reports.
    ExitCode loop();
    /// A hang report shows that the rank loads a batch while this runs. If any rank cannot read its
    /// batch, all throw; a failed disk (io) or bad data (bad_input) first saves the state.
    StepBatch next_batch(BatchLoader& loader);
    /// Issues the next step, then records the results of the one before it.
    void issue_step(StepBatch batch);
    /// Adds the results of the next step, if there are any.
    void record(const std::optional<FinishedStep>& finished);
    /// Returns false if a request to stop interrupted it.
    bool evaluate(const Evaluations& wanted);
    bool evaluate_validation();
    bool evaluate_tasks();
    /// Saves what is due after this step or `asked` for.
    void save_if_due(Request asked);
    void save();
    void save_copies(bool with_checkpoint);
    /// Waits for the last save, whose failure the next step reports.
    void finish_save();
    /// Waits for the last save and throws if it failed.
    void wait_for_save();

    // run_endings.cpp
    ExitCode finished();
    ExitCode stopped(Request why);
    /// Saves the state after the last step issued, unless that is done, and throws `failure`, with
    /// what became of the state. A numerical failure removes no older checkpoint: they may be the
    /// better ones.
    [[noreturn]] void save_and_fail(const CommonError& failure);
    /// From now on, no save removes a checkpoint.
    void keep_checkpoints();
    /// Throws on all ranks (bug) if ranks that should hold the same weights do not.
    void check_replicas();
    /// Runs the first microbatch twice, and throws on all ranks if its results differ: hang, so
    /// that the run is started again, or bug if the newest checkpoint may hold wrong values. No
    /// step may be in flight.
    void replay(const StepBatch& batch);
    /// Waits for the save under way, whose failure matters less than a device at fault.
    void drop_save();
    /// If the output directory is no longer the one that this run holds, or held by another start,
    /// all ranks leave.
    void check_directory();
    /// Saves into a new output directory and throws.
    [[noreturn]] void save_and_leave();

    const RunInputs& inputs_;
    const RunSpec& spec_;
    const RunPlan& plan_;
    const std::optional<RunDirectory>& directory_;
    const RunDevices& devices_;
    const MpiSession& ranks_;
    Progress& progress_;
    const Requests* requests_ = nullptr;  ///< set while `run` is running
    RunSpec effective_;

    RunReport report_;
    RunState state_;
    std::unique_ptr<InjectedFaults> injected_;  ///< in tests only
    std::unique_ptr<Engine> engine_;
    StepRunner steps_;
    RunCheckpoints checkpoints_;
    NumericalFaults faults_;

    std::vector<std::string> idle_;  ///< changed keys that only further steps obey

    double slowest_step_ = 0;  ///< in seconds
    double slowest_local_save_ = 0;
    bool saved_ = false;           ///< in this start
    std::int64_t last_equal_ = 0;  ///< the last step after which all replicas were equal
    /// The last step after which a microbatch came out equal twice, in this start.
    std::optional<std::int64_t> last_replay_;
};

}  // namespace gptrain
