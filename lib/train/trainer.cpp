#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/log.h"
#include "chat/chat_template.h"
#include "checkpoint/folder.h"
#include "engine/measure.h"
#include "engine/memory_check.h"
#include "metrics/run_directory.h"
#include "spec/fit_advice.h"
#include "spec/make_plan.h"
#include "stored/identity.h"
#include "stored/saved_run.h"
#include "train/lock_directory.h"
#include "train/requests.h"
#include "train/run.h"
#include "train/run_inputs.h"
#include "train/run_lines.h"

namespace gptrain {
namespace {

Deadline deadline_of(const RunSpec& spec) {
    const auto& limit = spec.faults.time_limit;
    if (!limit) return {};
    if (limit->job_end) return Deadline::at_job_end();
    return Deadline::at(Deadline::Clock::now() + std::chrono::seconds(limit->seconds));
}

/// Warns about later checkpoints from another course of the run, which the next `--resume auto`
/// would pick.
void warn_of_later_checkpoints(const std::optional<RestartPoint>& start,
                               const std::filesystem::path& checkpoints) {
    const auto all = list_checkpoints(checkpoints);
    if (!start || all.empty() || all.front().step <= start->meta().step) return;
    warn(checkpoints.string(), ": has checkpoints of later steps (up to ", all.front().step,
         ") than the one resumed from (", start->meta().step,
         "); the next start resumes from the latest unless --resume names another");
}

/// Reports a decay that ends before the run, such as after a run was made longer.
void report_ended_decay(const RunPlan& plan) {
    const LrSchedule& lr = plan.lr;
    const bool ends = lr.kind != LrKind::constant && lr.kind != LrKind::inverse_sqrt;
    if (!ends || lr.decay_steps >= plan.steps) return;
    const std::string line =
        text("lr_schedule.decay_steps ", lr.decay_steps, " is below training.steps ", plan.steps,
             ": the learning rate is ", lr.min_lr, " from step ", lr.decay_steps,
             " on; decay_steps: auto follows training.steps");
    if (lr.min_lr > 0) {
        print(line);
    } else {
        warn(line);
    }
}

/// True on all ranks if the run has nothing to resume from.
bool starts_fresh(const ResumeChoice& resume, const std::filesystem::path& checkpoints,
                  const MpiSession& ranks) {
    bool fresh = false;
    ranks.run_on_first([&] {
        fresh = resume.kind != ResumeChoice::Kind::from && list_checkpoints(checkpoints).empty();
    });
    return ranks.max(fresh ? 1 : 0) > 0;
}

/// The weights that the run starts with; none if it resumes or draws them. The checkpoints of an
/// adapter lack what it adapts, which is read at every start.
std::optional<InitialWeights> initial_weights(const RunSpec& spec, const RunPlan& plan,
                                              const ResumeChoice& resume, const MpiSession& ranks) {
    const std::filesystem::path checkpoints = RunPaths{spec.output_dir}.checkpoints();
    if (!spec.init_from || !(spec.adapter || starts_fresh(resume, checkpoints, ranks))) return {};
    std::optional<InitialWeights> initial;
    initial.emplace(*spec.init_from, without_adapter(plan.model), spec.adapter.has_value(), ranks);
    ranks.run_on_all([&] { initial->open_adapter(plan.model); });
    if (spec.data.tokenizer || ranks.rank() != 0) return initial;
    const std::filesystem::path folder = initial->tokenizer_folder();
    if (!folder.empty())
        print(
            "init_from: the run has no tokenizer; to keep that of the weights, set "
            "data.tokenizer: ",
            folder.string());
    return initial;
}

/// Rank 0 builds the index files; all ranks share the reading of what must be checked whole.
RunInputs open_inputs_on_all(const RunSpec& spec, const RunPlan& plan,
                             const TokenizerInput& tokenizer, const RunPaths& paths,
                             const std::optional<RestartPoint>& checkpoint,
                             const std::optional<InitialWeights>& initial,
                             const MpiSession& ranks) {
    OpenInputs from = {.cache = paths.cache(), .ranks = &ranks, .saved = {}, .adapted = {}};
    if (checkpoint) ranks.run_on_all([&] { from.saved = saved_data(checkpoint->meta()); });
    if (spec.adapter) from.adapted = initial->fingerprint();
    std::optional<RunInputs> inputs;
    ranks.run_on_all([&] { inputs.emplace(open_inputs(spec, plan, tokenizer, from)); });
    return std::move(*inputs);
}

/// The cost of this rank's steps. If any rank lacks the memory, an Error (usage) on all ranks
/// suggests what would fit.
StepCost checked_cost(const RunSpec& spec, const RunPlan& plan, const RunDevices& devices) {
    const MemoryCheck check(devices.backend, devices.ranks);
    const auto cost_of = [&](const RunPlan& any) {
        return measure_run(any, devices.mesh.place(), memory_of(devices.backend));
    };
    StepCost cost = cost_of(plan);
    // Copies of earlier starts already have their memory.
    const std::int64_t has = memory_of_copies(spec, plan, devices.ranks);
    const auto still_needed = [&](MemoryPlan memory) {
        std::int64_t& copies = memory[MemoryUse::memory_copies];
        copies -= std::min(copies, has);
        return memory;
    };
    const PlanTarget target = {.world_size = devices.ranks.size(),
                               .cuda = !devices.backend.is_host()};
    check.require(still_needed(cost.memory), [&] {
        return fit_advice(spec, target, [&](const RunPlan& other) {
            return !check.find_shortage(still_needed(cost_of(other).memory));
        });
    });
    return cost;
}

/// The checkpoint to start from, nothing for a fresh start, once what dead runs left is removed.
std::optional<RestartPoint> choose_checkpoint(const RunSpec& spec, const RunPlan& plan,
                                              const ResumeChoice& resume,
                                              const std::optional<RunDirectory>& directory,
                                              const MpiSession& ranks) {
    const RunPaths paths = {spec.output_dir};
    // A checkpoint that a dead run was replacing takes part in the choice again.
    ranks.run_on_first([&] {
        remove_leftovers(paths.checkpoints(), [&] { directory->require_own(); });
        remove_index_leftovers(paths.cache());
    });
    std::vector<LocalRestart> copies;
    if (resume.kind == ResumeChoice::Kind::automatic) copies = find_local_copies(spec, plan, ranks);
    std::optional<RestartPoint> checkpoint =
        find_start(resume, paths.checkpoints(), ranks, std::move(copies));
    ranks.run_on_all([&] {
        if (checkpoint) require_resumable(*checkpoint);
    });
    return checkpoint;
}

/// Reports a chat template other than that of the checkpoint. Local copies have no template to
/// compare.
void report_template_change(const RestartPoint& checkpoint, const ChatTemplateFile& now) {
    if (checkpoint.local()) return;
    const auto saved =
        checkpoint.whole_file(std::string(chat_template_name), max_tokenizer_bytes).value_or("");
    if (saved == now.text) return;
    print("changed since the checkpoint: chat template: now ",
          now.text.empty() ? "none" : now.path.string());
}

void print_start(const RunInputs& inputs, const StepCost& cost, const RunDevices& devices) {
    const StartSummary summary = {.device = devices.device_name,
                                  .memory_bytes = devices.ranks.max(cost.memory.total()),
                                  .evaluates = inputs.spec.training.eval_interval > 0,
                                  .output_dir = inputs.spec.output_dir};
    for (const std::string& line : start_lines(inputs.plan, inputs.data, summary))
        print(line);
}

void warn_of_inputs(const RunInputs& inputs) {
    for (const std::string& warning : inputs.data.warnings)
        warn(warning);
    if (!inputs.tasks || inputs.tasks->cut() == 0) return;
    warn(counted(inputs.tasks->cut(), "text"),
         " of eval_tasks lost tokens at the beginning: ", "training.seq_length is ",
         inputs.plan.seq_length);
}

/// Error (usage) if the run has other inputs than its checkpoint. Reports what it may change. All
/// ranks call it.
void check_resumed(const std::optional<RestartPoint>& checkpoint, const RunInputs& inputs,
                   const MpiSession& ranks) {
    ranks.run_on_all([&] {
        if (!checkpoint) return;
        check_identity(checkpoint->meta().identity, inputs.identity, checkpoint->folder().string(),
                       inputs.spec.data.on_change);
    });
    if (inputs.data.changed) print(change_line(inputs.data));
    if (checkpoint) report_template_change(*checkpoint, inputs.chat_template);
}

}  // namespace

ExitCode train(const RunSpec& spec, const RunPlan& plan, const ResumeChoice& resume,
               const RunDevices& devices) {
    const MpiSession& ranks = devices.ranks;
    const RunPaths paths = {spec.output_dir};
    Watchdog& watchdog = devices.observers.watchdog;
    StartTimes& times = devices.start_times;
    times.begin(StartPhase::inputs);
    Deadline deadline;
    ranks.run_on_all([&] { deadline = deadline_of(spec); });
    // Check first: a run started in the wrong folder must leave nothing there.
    ranks.run_on_first([&] {
        check_start(resume);
        check_spec_there(paths);
    });
    CheckedInputs checked;
    ranks.run_on_all([&] { checked = check_inputs(spec, plan); });
    check_local_folders(spec, ranks);
    std::optional<InitialWeights> initial = initial_weights(spec, plan, resume, ranks);
    std::optional<RunDirectory> directory;
    times.begin(StartPhase::lock);
    lock_directory(directory, spec.output_dir, lock_patience(), ranks,
                   [&] { watchdog.progress().phase("lock", 0); });
    watchdog.progress().phase("load", 0);
    watchdog.connect_nodes(paths.cache() / "heartbeats", ranks);
    times.begin(StartPhase::plan);
    const StepCost cost = checked_cost(spec, plan, devices);
    times.begin(StartPhase::checkpoint);
    std::optional<RestartPoint> checkpoint =
        choose_checkpoint(spec, plan, resume, directory, ranks);
    times.begin(StartPhase::inputs);
    RunInputs inputs =
        open_inputs_on_all(spec, plan, checked.tokenizer, paths, checkpoint, initial, ranks);
    inputs.chat_template = std::move(checked.chat_template);
    inputs.tasks = std::move(checked.tasks);
    inputs.peer_axes = devices.mesh.peer_axes();
    print_start(inputs, cost, devices);
    if (ranks.rank() == 0) warn_of_inputs(inputs);
    check_resumed(checkpoint, inputs, ranks);
    std::optional<Requests> requests;
    std::optional<Run> run;
    try {
        return or_abort(devices.mesh, [&] {
            run.emplace(inputs, directory, devices, cost);
            run->start(checkpoint, initial);
            ranks.run_on_first([&] {
                warn_of_later_checkpoints(checkpoint, paths.checkpoints());
                report_ended_decay(plan);
                if (!plan.shortening_note.empty()) print(plan.shortening_note);
            });
            // Until now a signal ended the run; from here on it only asks the run to stop.
            requests.emplace(deadline, ranks.rank() == 0 ? paths.folder : "");
            return run->run(*requests);
        });
    } catch (const CommonError&) {
        // All ranks get here. End the messages in flight now, while their memory is alive; during
        // exception unwinding nobody would wait for them.
        run.reset();
        throw;
    }
}

}  // namespace gptrain
