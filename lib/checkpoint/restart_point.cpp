#include "checkpoint/restart_point.h"

#include <algorithm>

#include "base/log.h"
#include "checkpoint/block.h"
#include "checkpoint/load.h"
#include "checkpoint/manifest_part.h"
#include "checkpoint/verify_together.h"

namespace gptrain {

std::optional<RestartPoint> RestartPoint::find(std::vector<std::filesystem::path> candidates,
                                               const MpiSession& ranks,
                                               std::optional<LocalRestart> local) {
    RestartPoint point(std::move(candidates), ranks);
    point.single_candidate_ = ranks.max(std::ssize(point.candidates_)) == 1;
    point.local_ = std::move(local);
    if (point.local_) {
        point.folder_ = point.local_->folder();
        point.meta_ = point.local_->meta();
        return point;
    }
    if (!point.open_next()) return std::nullopt;
    return point;
}

bool RestartPoint::open_next() {
    if (ranks_->max(std::ssize(candidates_)) == 0) return false;
    for (;;) {
        ranks_->run_on_first([&] {
            if (next_ < candidates_.size()) return;
            fail(ExitCode::bad_input, folder_.parent_path().string(), ": all ", candidates_.size(),
                 " checkpoints are damaged; restore one, or move them away to start from scratch");
        });
        try {
            open();
            return true;
        } catch (const CommonError& damage) {
            skip_damaged(damage);
        }
    }
}

void RestartPoint::open() {
    if (ranks_->rank() == 0) folder_ = candidates_[next_++];
    VerifiedCheckpoint verified = verify_together(folder_, *ranks_);
    folder_ = std::move(verified.folder);
    manifest_ = std::move(verified.manifest);
    const auto meta = [](const auto& any) { return to_message(any.meta); };
    meta_ = meta_from_message(ranks_->broadcast(std::visit(meta, manifest_)));
}

void RestartPoint::skip_damaged(const Error& damage) {
    if (single_candidate_ ||
        (damage.code() != ExitCode::bad_input && damage.code() != ExitCode::io))
        throw;
    if (ranks_->rank() != 0) return;
    warn(damage.what(), "; skipping checkpoint ", folder_.filename().string());
}

std::optional<std::string> RestartPoint::whole_file(const std::string& name,
                                                    std::int64_t limit) const {
    std::optional<std::string> own;
    ranks_->run_on_first([&] {
        const auto& files = std::visit(
            [](const auto& any) -> auto& { return any.files; }, manifest_);
        const auto record = std::find_if(files.begin(), files.end(),
                                         [&](const FileRecord& file) { return file.name == name; });
        if (record != files.end()) own = read_whole(folder_, *record, limit);
    });
    // A leading mark distinguishes an empty file from none.
    const std::string message = ranks_->broadcast(own ? "+" + *own : "");
    if (message.empty()) return std::nullopt;
    return message.substr(1);
}

Manifest RestartPoint::part_from_first(const StateSource& needed) const {
    const auto needs = ranks_->gather(to_message(ShardRecords{{}, needs_of(needed)}));
    const Manifest none;
    const auto* manifest = std::get_if<Manifest>(&manifest_);
    const ManifestParts parts(manifest == nullptr ? none : *manifest);
    ShardRecords part = from_message(ranks_->scatter([&](int rank) {
        const ShardRecords of_rank = from_message(needs[static_cast<std::size_t>(rank)]);
        return to_message(parts.part_for(of_rank.tensors));
    }));
    return {meta_, std::move(part.files), std::move(part.tensors)};
}

void RestartPoint::load(Backend& backend, const StateSource& needed,
                        const std::function<void()>& check_candidate) {
    if (local_) {
        if (load_local(backend, needed)) return;
        ranks_->run_on_all(check_candidate);
    }
    const Fill fill = [&](const std::filesystem::path& folder, const Manifest& part) {
        load_state(folder, part, backend, needed);
    };
    load(needed, fill, check_candidate);
}

bool RestartPoint::load_local(Backend& backend, const StateSource& needed) {
    try {
        local_->load(backend, needed);
        return true;
    } catch (const CommonError& damage) {
        if (damage.code() != ExitCode::bad_input && damage.code() != ExitCode::io) throw;
        if (ranks_->rank() == 0)
            warn(damage.what(), "; skipping the local copies of step ", meta_.step);
    }
    const std::filesystem::path lost = local_->folder();
    local_.reset();
    if (open_next()) return false;
    throw CommonError(ExitCode::bad_input,
                      text("the local copies of step ", meta_.step,
                           " are damaged, and the run has no checkpoint; remove them (",
                           lost.filename().string(), ") to start from scratch"));
}

void RestartPoint::load(const StateSource& needed, const Fill& fill,
                        const std::function<void()>& check_candidate) {
    for (bool loaded = false; !loaded;) {
        const bool has_records =
            ranks_->max(std::holds_alternative<CheckpointIndex>(manifest_)) == 1;
        Manifest part;
        if (!has_records) part = part_from_first(needed);
        try {
            ranks_->run_on_all([&] {
                if (has_records) {
                    part =
                        read_part(folder_, std::get<CheckpointIndex>(manifest_), needs_of(needed));
                }
                fill(folder_, part);
            });
            loaded = true;
        } catch (const CommonError& damage) {
            skip_damaged(damage);
            open_next();
            ranks_->run_on_all(check_candidate);
        }
    }
    manifest_ = {};
}

}  // namespace gptrain
