#include "train/resume.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/folder.h"
#include "checkpoint/read_patiently.h"
#include "engine/memory_limits.h"
#include "metrics/run_directory.h"
#include "stored/find_checkpoint.h"
#include "stored/saved_run.h"

namespace gptrain {
namespace {

/// The checkpoints to try, in order.
std::vector<std::filesystem::path> candidates_for(const ResumeChoice& choice,
                                                  const std::filesystem::path& checkpoints) {
    if (choice.kind == ResumeChoice::Kind::automatic) return checkpoint_paths(checkpoints);
    if (choice.kind == ResumeChoice::Kind::from) return checkpoints_at(choice.folder);
    if (!list_checkpoints(checkpoints).empty()) {
        fail(ExitCode::usage, checkpoints.string(),
             ": contains checkpoints, but --resume is never; choose another output_dir or drop "
             "--resume");
    }
    return {};
}

/// The step of the checkpoint after which the copies were made, if it is gone.
std::optional<std::int64_t> removed_before(const CheckpointMeta& copies,
                                           std::optional<std::int64_t> newest) {
    const auto before = saved_run(copies).newest_checkpoint;
    if (!before || (newest && *before <= *newest)) return std::nullopt;
    return before;
}

/// Copies that were made after the checkpoint of step `removed`, which is gone, are not used:
/// somebody has removed it to go back to the one of step `newest`. If no checkpoint is left, the
/// folder may only be unreachable for the moment.
void ignore_copies(const std::filesystem::path& checkpoints, const LocalRestart& copies,
                   std::int64_t removed, std::optional<std::int64_t> newest) {
    const std::string made = text("the ", name_of(copies.tier()), " of step ", copies.meta().step,
                                  " were made after ", checkpoint_name(removed), ", which is gone");
    if (newest) {
        warn(checkpoints.string(), ": ", made, "; they are not used, and removed");
        return;
    }
    fail(ExitCode::usage, checkpoints.string(), ": has no checkpoint, but ", made,
         "; is its file system mounted? To start from scratch, choose another output_dir");
}

CheckpointMeta meta_of(const std::filesystem::path& folder) {
    const AnyManifest manifest = parse_any_manifest_of(folder, read_manifest_text(folder));
    return std::visit([](const auto& any) { return any.meta; }, manifest);
}

/// The record of the newest checkpoint that can be read. Whoever loads a faulty one reports that.
std::optional<SavedRun> newest_run(const ResumeChoice& choice,
                                   const std::filesystem::path& checkpoints) {
    if (choice.kind == ResumeChoice::Kind::never) return std::nullopt;
    for (const auto& folder : candidates_for(choice, checkpoints)) {
        try {
            return read_patiently<Error>(true, [&] { return saved_run(meta_of(folder)); });
        } catch (const Error&) {
            continue;
        }
    }
    return std::nullopt;
}

/// Empty if there is none. Whoever chooses a checkpoint reports what is wrong with the choice.
std::string newest_checkpoint(const ResumeChoice& choice, const std::filesystem::path& output_dir) {
    if (choice.kind == ResumeChoice::Kind::never) return "";
    try {
        const auto all = candidates_for(choice, RunPaths{output_dir}.checkpoints());
        return all.empty() ? "" : all.front().string();
    } catch (const Error&) {
        return "";
    }
}

}  // namespace

void check_start(const ResumeChoice& choice) {
    if (choice.kind == ResumeChoice::Kind::from) checkpoints_at(choice.folder);
}

std::optional<RestartPoint> find_start(const ResumeChoice& choice,
                                       const std::filesystem::path& checkpoints,
                                       const MpiSession& ranks, std::vector<LocalRestart> copies) {
    std::vector<std::filesystem::path> candidates;
    ranks.run_on_first([&] { candidates = candidates_for(choice, checkpoints); });
    const auto newest =
        candidates.empty() ? std::nullopt : checkpoint_step(candidates.front().filename());
    std::erase_if(copies, [&](const LocalRestart& of_tier) {
        std::optional<std::int64_t> removed;
        ranks.run_on_first([&] {
            removed = removed_before(of_tier.meta(), newest);
            if (removed) ignore_copies(checkpoints, of_tier, *removed, newest);
        });
        return ranks.max(removed ? 1 : 0) > 0;
    });
    return RestartPoint::find(std::move(candidates), ranks, std::move(copies));
}

std::optional<ReadAhead> read_ahead(const ResumeChoice& choice, const RunSpec& spec,
                                    const MpiSession& ranks) {
    const bool copies = spec.checkpoint.memory || spec.checkpoint.local;
    if (copies && choice.kind == ResumeChoice::Kind::automatic) return std::nullopt;
    std::string newest;
    if (ranks.rank() == 0) newest = newest_checkpoint(choice, spec.output_dir);
    newest = ranks.broadcast(newest);
    if (newest.empty()) return std::nullopt;
    std::optional<std::int64_t> available;
    for (const MemoryLimit& limit : host_memory_limits()) {
        if (limit.per_process) continue;
        available = std::min(available.value_or(limit.available), limit.available);
    }
    return std::optional<ReadAhead>(std::in_place,
                                    shard_files_of(newest, ranks.rank(), ranks.size()),
                                    available.value_or(0) / 2 / ranks.local_size());
}

std::optional<PeerAxes> saved_peer_axes(const ResumeChoice& choice,
                                        const std::filesystem::path& checkpoints,
                                        const MpiSession& ranks) {
    Json found;
    ranks.run_on_first([&] {
        const std::optional<SavedRun> saved = newest_run(choice, checkpoints);
        if (saved && saved->peer_axes) found = to_json(*saved->peer_axes);
    });
    const Json shared = parse_json(ranks.broadcast(found.dump()), "peer_axes");
    return shared.is_null() ? std::nullopt : std::optional(peer_axes(shared, "peer_axes"));
}

std::optional<RunSpec> saved_spec(const ResumeChoice& choice,
                                  const std::filesystem::path& checkpoints) {
    const std::optional<SavedRun> saved = newest_run(choice, checkpoints);
    if (!saved) return std::nullopt;
    return parse_run_spec(saved->spec_yaml, "the spec of the checkpoint");
}

std::optional<RunSpec> resumed_spec(const RunSpec& spec, const ResumeChoice& choice) {
    const RunPaths paths = {spec.output_dir};
    std::optional<RunSpec> saved = saved_spec(choice, paths.checkpoints());
    std::error_code missing;
    const bool copies = choice.kind == ResumeChoice::Kind::automatic &&
                        (spec.checkpoint.local || spec.checkpoint.memory);
    if (!saved && copies && std::filesystem::exists(paths.spec(), missing)) {
        try {
            saved = load_run_spec(paths.spec());
        } catch (const Error&) {  // the file is for people: a run does not depend on it
        }
    }
    return saved;
}

void require_resumable(const RestartPoint& checkpoint) {
    if (!saved_run(checkpoint.meta()).weights_only) return;
    fail(ExitCode::usage, checkpoint.folder().string(),
         ": is an imported model without the state of a run, which cannot be resumed; start a run "
         "from its weights with init_from: ",
         checkpoint.folder().string());
}

}  // namespace gptrain
