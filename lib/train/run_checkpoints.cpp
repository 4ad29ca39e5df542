#include "train/run_checkpoints.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/log.h"
#include "base/temporary_file.h"
#include "chat/chat_template.h"
#include "checkpoint/folder.h"
#include "metrics/metrics_log.h"
#include "spec/plan_checks.h"
#include "spec/spec_json.h"
#include "stored/identity.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {
namespace {

/// Files that make a checkpoint usable without the run's input files.
std::vector<WholeFile> files_of(const RunInputs& inputs) {
    const TokenizerInput& tokenizer = inputs.tokenizer;
    std::vector<WholeFile> files;
    if (!tokenizer.bytes.empty())
        files.push_back({tokenizer_file_name(tokenizer.bytes), tokenizer.bytes});
    for (const NamedFile& companion : tokenizer.companions)
        if (companion.name != chat_template_name)
            files.push_back({companion.name, companion.contents});
    if (const std::string& chat_template = inputs.chat_template.text; !chat_template.empty())
        files.push_back({chat_template_name, chat_template});
    return files;
}

const std::optional<std::filesystem::path>& dir_for(const CheckpointSpec& spec, CopyTier tier) {
    return tier == CopyTier::memory ? spec.memory : spec.local;
}

/// Where this node keeps copies, fastest first.
std::vector<LocalFolder> local_folders(const RunSpec& spec, const RunPlan& plan,
                                       const MpiSession& ranks) {
    std::vector<LocalFolder> folders;
    for (const CopyTier tier : {CopyTier::memory, CopyTier::disk}) {
        if (const auto& dir = dir_for(spec.checkpoint, tier))
            folders.push_back(local_folder(*dir, spec.output_dir, plan.mesh, ranks.node(), tier));
    }
    return folders;
}

/// The course of local copies that the output directory records; empty if none of them belong to
/// it.
std::string noted_course(const RunPaths& paths) {
    constexpr std::int64_t limit = 4096;
    if (is_there(paths.local_copies())) return read_file(paths.local_copies(), limit, ExitCode::io);
    // Programs without courses have used it.
    return is_there(paths.spec()) ? to_text(LocalCourse{}) : "";
}

/// The last step that the last start of the run has logged, if any.
std::optional<std::int64_t> last_step(const RunPaths& paths) {
    return is_there(paths.metrics()) ? last_logged_step(paths.metrics()) : std::nullopt;
}

/// Error (usage) if no rank can ever write into `dir`.
void check_folder(const RunSpec& spec, CopyTier tier, const std::filesystem::path& dir,
                  const MpiSession& ranks) {
    const std::vector<std::string> reasons = ranks.exchange(why_never_writable(dir));
    // A node whose disk broke before this start costs the copies, not the run.
    if (std::any_of(reasons.begin(), reasons.end(), [](const auto& why) { return why.empty(); }))
        return;
    const std::string key(key_of(tier));
    ranks.run_on_first([&] {
        fail(ExitCode::usage, located(spec.locations.of(key),
                                      text(key, ": ", reasons.front(), "; give a folder ",
                                           tier == CopyTier::memory ? "in each node's memory"
                                                                    : "on each node's own disk",
                                           ", or leave out the key")));
    });
}

}  // namespace

void check_local_folders(const RunSpec& spec, const MpiSession& ranks) {
    for (const CopyTier tier : {CopyTier::memory, CopyTier::disk})
        if (const auto& dir = dir_for(spec.checkpoint, tier)) check_folder(spec, tier, *dir, ranks);
}

std::vector<LocalRestart> find_local_copies(const RunSpec& spec, const RunPlan& plan,
                                            const MpiSession& ranks) {
    const std::vector<LocalFolder> folders = local_folders(spec, plan, ranks);
    if (folders.empty()) return {};
    const RunPaths paths = {spec.output_dir};
    std::string noted;
    std::optional<std::int64_t> reached;
    ranks.run_on_first([&] {
        noted = noted_course(paths);
        reached = last_step(paths);
    });
    noted = ranks.broadcast(noted);
    if (noted.empty()) return {};
    const LocalCourse course = local_course(noted);
    const bool again = ranks.max(reached && reached == course.reached ? 1 : 0) == 1;
    std::vector<LocalRestart> found;
    for (const LocalFolder& folder : folders) {
        auto copies = LocalRestart::find(folder, course, ranks);
        if (!copies) continue;
        if (!again || copies->save() != course.from) {
            found.push_back(std::move(*copies));
        } else if (ranks.rank() == 0) {
            warn("the last two starts ended after step ", *reached, ", the second one from the ",
                 name_of(folder.tier), " of step ", copies->meta().step, "; they are not used");
        }
    }
    return found;
}

std::int64_t memory_of_copies(const RunSpec& spec, const RunPlan& plan, const MpiSession& ranks) {
    std::int64_t bytes = 0;
    for (const LocalFolder& folder : local_folders(spec, plan, ranks))
        if (folder.tier == CopyTier::memory) bytes += bytes_of_copies(folder);
    return bytes / ranks.local_size();
}

RunCheckpoints::RunCheckpoints(const RunInputs& inputs, const RunSpec& effective, Engine& engine,
                               const MpiSession& ranks, std::function<void()> may_write,
                               std::function<void(const std::string&)> failed)
    : effective_(effective),
      spec_yaml_(to_yaml(effective)),
      identity_(inputs.identity),
      peer_axes_(inputs.peer_axes),
      changed_to_(inputs.data.changed ? inputs.data.phase : std::nullopt),
      files_(files_of(inputs)),
      paths_{effective.output_dir},
      engine_(engine),
      ranks_(ranks),
      may_write_(std::move(may_write)),
      failed_(std::move(failed)),
      saver_(make_saver(
          {paths_.checkpoints(), effective.checkpoint.keep_last, effective.checkpoint.keep_every},
          effective.checkpoint.async)) {
    for (LocalFolder& folder : local_folders(effective, inputs.plan, ranks)) {
        const bool in_memory = folder.tier == CopyTier::memory;
        tiers_.push_back({.interval = in_memory ? effective.checkpoint.memory_interval
                                                : effective.checkpoint.local_interval,
                          .copies = std::make_unique<LocalCopies>(
                              engine_.backend(), engine_.memory()[MemoryUse::snapshot], ranks_,
                              std::move(folder), state_source(), may_write_)});
    }
}

std::unique_ptr<CheckpointSaver> RunCheckpoints::make_saver(const Retention& retention,
                                                            bool async) {
    return std::make_unique<CheckpointSaver>(
        engine_.backend(), engine_.memory()[MemoryUse::snapshot], ranks_,
        SaverOptions{
            .retention = retention,
            .async = async,
            .files = files_,
            .model = to_json(effective_).at("model"),
            .may_write = may_write_,
            .failed = failed_,
            .committed = [this](const auto& path) { course_.insert(course_.begin(), path); },
            .record_time = record_save_time});
}

void RunCheckpoints::adapt_loss_scale(StepState& state, const std::string& saved_spec) const {
    const std::string key = "precision.compute";
    if (setting_of(saved_spec, key) == setting_of(spec_yaml_, key)) return;
    state.loss_scale = engine_.first_loss_scale();
    state.clean_steps = 0;
}

SavedRun RunCheckpoints::load(RestartPoint& checkpoint, RunState& run) {
    const CheckpointMeta& meta = checkpoint.meta();
    checkpoint.load(engine_.backend(), state_source(),
                    [&] { check_older(meta, checkpoint.folder().string()); });
    SavedRun saved = saved_run(meta);
    adapt_loss_scale(saved.state, saved.spec_yaml);
    run.last = saved.state;
    engine_.restore(run.last);
    run.step = meta.step;
    run.consumed_samples = meta.data_position;
    const std::string state = checkpoint.folder().string() + ": state.";
    run.loss_spikes.restore(saved.losses, state + "losses");
    run.interval_loss.restore(saved.interval_loss, state + "interval_loss");
    run.expert_slices.restore(saved.expert_slices, state + "expert_slices");
    latest_ = checkpoint.folder();
    loaded_save_seconds_ = saved.save_seconds;
    course_ = checkpoint.course();
    saver_->continue_from(run.step,
                          checkpoint.local() ? std::filesystem::path() : checkpoint.folder());
    LocalCourse course;
    if (checkpoint.local()) {
        course.from = checkpoint.local()->save();
        course.older = checkpoint.untried_copies();
        ranks_.run_on_first([&] { course.reached = last_step(paths_); });
    }
    begin_course(run.step, std::move(course));
    return saved;
}

void RunCheckpoints::begin_course(std::int64_t step, LocalCourse course) {
    course.id = ranks_.broadcast(new_course_id());
    unnoted_ = course;
    note_course();
    for (const Tier& tier : tiers_)
        tier.copies->begin_course(course, step);
}

bool RunCheckpoints::note_course() {
    if (!unnoted_) return true;
    try {
        ranks_.run_on_first([&] {
            may_write_();
            // Without local copies, earlier ones no longer count.
            if (!tiers_.empty() || is_there(paths_.local_copies()))
                write_file_durably(paths_.local_copies(), to_text(*unnoted_));
        });
    } catch (const CommonError& error) {
        if (tiers_.empty() || error.code() != ExitCode::io) throw;
        if (ranks_.rank() == 0)
            warn(error.what(), "; no local copies are made until it can be written");
        return false;
    }
    unnoted_.reset();
    return true;
}

void RunCheckpoints::check_older(const CheckpointMeta& meta, const std::string& folder) const {
    const bool before_change = changed_to_ && saved_data(meta).phase != changed_to_;
    if (before_change && meta.data_position != changed_to_->first_sample) {
        fail(ExitCode::usage, folder, ": has read ", meta.data_position,
             " samples, but the data was to change after ", changed_to_->first_sample,
             ", at the damaged checkpoint; to change the data here instead, add --resume ", folder);
    }
    check_identity(meta.identity, identity_, folder,
                   before_change ? OnChange::go_on : OnChange::refuse);
}

std::optional<RestartPoint> RunCheckpoints::find_newest() const {
    return RestartPoint::find(remaining(), ranks_);
}

std::vector<std::filesystem::path> RunCheckpoints::remaining() const {
    std::vector<std::filesystem::path> paths = course_;
    std::erase_if(paths, is_missing);
    return paths;
}

std::optional<std::filesystem::path> RunCheckpoints::newest_until(std::int64_t step) const {
    for (const std::filesystem::path& path : remaining()) {
        const auto saved = checkpoint_step(path.filename().string());
        if (saved && *saved <= step) return path;
    }
    return std::nullopt;
}

void RunCheckpoints::save(const RunState& run) {
    saver_->save(meta_of(run), state_source());
    latest_ = paths_.checkpoints() / checkpoint_name(run.step);
}

std::optional<std::int64_t> RunCheckpoints::newest_own() const {
    if (course_.empty() || course_.front().parent_path() != paths_.checkpoints()) return {};
    return checkpoint_step(course_.front().filename());
}

bool RunCheckpoints::is_due(const Tier& tier, std::int64_t step, bool with_checkpoint) {
    return step % tier.interval == 0 &&
           (!with_checkpoint || tier.copies->tier() == CopyTier::memory);
}

bool RunCheckpoints::copies_due(std::int64_t step, bool with_checkpoint) const {
    return std::ranges::any_of(
        tiers_, [&](const Tier& tier) { return is_due(tier, step, with_checkpoint); });
}

void RunCheckpoints::save_copies(const RunState& run, bool with_checkpoint) {
    if (!note_course()) return;
    CheckpointMeta meta = meta_of(run);
    if (const auto newest = newest_own()) meta.state["newest_checkpoint"] = *newest;
    for (const Tier& tier : tiers_)
        if (is_due(tier, run.step, with_checkpoint)) tier.copies->save(meta, state_source());
}

void RunCheckpoints::poll_copies() {
    for (const Tier& tier : tiers_)
        tier.copies->poll();
}

void RunCheckpoints::finish_copies() {
    for (const Tier& tier : tiers_)
        tier.copies->finish();
}

void RunCheckpoints::release_memory() {
    for (const Tier& tier : tiers_)
        if (tier.copies->tier() == CopyTier::memory) tier.copies->remove_all();
}

CheckpointMeta RunCheckpoints::meta_of(const RunState& run) const {
    CheckpointMeta meta;
    meta.step = run.step;
    meta.data_position = run.consumed_samples;
    meta.spec_hash = spec_hash(spec_yaml_);
    meta.identity = identity_;
    meta.state = to_json(SavedRun{.state = run.last,
                                  .spec_yaml = spec_yaml_,
                                  .goodput = run.goodput.spent(),
                                  .losses = run.loss_spikes.to_json(),
                                  .interval_loss = run.interval_loss.to_json(),
                                  .expert_slices = run.expert_slices.to_json(),
                                  .save_seconds = save_seconds(),
                                  .peer_axes = peer_axes_});
    return meta;
}

void RunCheckpoints::keep_all() {
    saver_ = make_saver({paths_.checkpoints(), Retention::all, 0}, false);
}

}  // namespace gptrain
