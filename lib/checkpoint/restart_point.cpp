#include "checkpoint/restart_point.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "checkpoint/block.h"
#include "checkpoint/folder.h"
#include "checkpoint/load.h"
#include "checkpoint/manifest_part.h"
#include "checkpoint/read_patiently.h"
#include "checkpoint/verify.h"
#include "checkpoint/verify_together.h"

namespace gptrain {
RestartPoint::RestartPoint(std::vector<std::filesystem::path> candidates, const MpiSession& ranks,
                           std::vector<LocalRestart> local)
    : candidates_(std::move(candidates)),
      ranks_(&ranks),
      count_(static_cast<std::size_t>(ranks.max(std::ssize(candidates_)))),
      ahead_(std::move(local)) {
    std::ranges::sort(ahead_, [](const LocalRestart& a, const LocalRestart& b) {
        return std::pair(a.meta().step, b.tier()) < std::pair(b.meta().step, a.tier());
    });
}

std::optional<RestartPoint> RestartPoint::find(std::vector<std::filesystem::path> candidates,
                                               const MpiSession& ranks,
                                               std::vector<LocalRestart> local) {
    RestartPoint point(std::move(candidates), ranks, std::move(local));
    if (point.count_ == 0 && point.ahead_.empty()) return std::nullopt;
    point.open_next();
    return point;
}

std::size_t RestartPoint::before_copies() const {
    const LocalRestart& copies = ahead_.back();
    const std::int64_t step = copies.meta().step + (copies.tier() == CopyTier::memory ? 1 : 0);
    const auto older = std::find_if(candidates_.begin(), candidates_.end(), [&](const auto& path) {
        return checkpoint_step(path.filename()).value_or(0) < step;
    });
    return static_cast<std::size_t>(ranks_->max(older - candidates_.begin()));
}

std::vector<std::string> RestartPoint::untried_copies() const {
    std::vector<std::string> saves;
    for (const LocalRestart& copies : ahead_)
        saves.push_back(copies.save());
    return saves;
}

std::vector<std::filesystem::path> RestartPoint::course() const {
    if (candidates_.empty()) return {};
    return {candidates_.begin() + static_cast<std::ptrdiff_t>(local_ ? next_ : next_ - 1),
            candidates_.end()};
}

void RestartPoint::open_next() {
    for (;;) {
        if (!ahead_.empty() && next_ == before_copies()) {
            local_ = std::move(ahead_.back());
            ahead_.pop_back();
            tried_ = local_->tier();
            folder_ = local_->folder();
            meta_ = local_->meta();
            return;
        }
        if (next_ == count_) throw nothing_left();
        const std::size_t candidate = next_++;
        try {
            return read_patiently<CommonError>(ranks_->rank() == 0, [&] { open(candidate); });
        } catch (const CommonError& damage) {
            skip_damaged(damage);
        }
    }
}

void RestartPoint::open(std::size_t candidate) {
    if (ranks_->rank() == 0) folder_ = candidates_[candidate];
    VerifiedCheckpoint verified = verify_together(folder_, *ranks_);
    folder_ = std::move(verified.folder);
    manifest_ = std::move(verified.manifest);
    const auto meta = [](const auto& any) { return to_message(any.meta); };
    meta_ = meta_from_message(ranks_->broadcast(std::visit(meta, manifest_)));
}

void RestartPoint::skip_damaged(const Error& damage) {
    const bool only_one = count_ == 1 && ahead_.empty();
    if (only_one || !is_unusable(damage)) throw;
    if (damage.code() == ExitCode::io) ++unread_;
    if (ranks_->rank() != 0) return;
    warn(damage.what(), "; skipping checkpoint ", folder_.filename().string());
}

CommonError RestartPoint::nothing_left() const {
    if (count_ == 0) {
        return {ExitCode::bad_input,
                text("the ", name_of(tried_), " of step ", meta_.step,
                     " are damaged, and the run has no checkpoint; remove them (",
                     folder_.filename().string(), ") to start from scratch")};
    }
    const auto& any = candidates_.empty() ? folder_ : candidates_.front();
    const std::string folder = any.parent_path().string();
    if (unread_ == 0) {
        return {ExitCode::bad_input,
                text(folder, ": all ", count_,
                     " checkpoints are damaged; restore one, or move them away to start from "
                     "scratch")};
    }
    return {ExitCode::io, text(folder, ": ", unread_, " of ", count_, " checkpoints cannot be read",
                               unread_ < count_ ? ", and the others are damaged" : "",
                               "; start the run again when the file system answers")};
}

std::optional<std::string> RestartPoint::whole_file(const std::string& name,
                                                    std::int64_t limit) const {
    std::optional<std::string> own;
    ranks_->run_on_first([&] {
        const auto& files = std::visit(
            [](const auto& any) -> auto& { return any.files; }, manifest_);
        const auto record = std::ranges::find(files, name, &FileRecord::name);
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
    const Fill fill = [&](const std::filesystem::path& folder, const Manifest& part) {
        load_state(folder, part, backend, needed);
    };
    load_any([&] { return local_ ? load_local(backend, needed) : load_checkpoint(needed, fill); },
             check_candidate);
}

void RestartPoint::load(const StateSource& needed, const Fill& fill,
                        const std::function<void()>& check_candidate) {
    load_any([&] { return load_checkpoint(needed, fill); }, check_candidate);
}

void RestartPoint::load_any(const std::function<bool()>& load_one,
                            const std::function<void()>& check_candidate) {
    while (!load_one()) {
        open_next();
        ranks_->run_on_all(check_candidate);
    }
    manifest_ = {};
}

bool RestartPoint::load_local(Backend& backend, const StateSource& needed) {
    try {
        local_->load(backend, needed);
        return true;
    } catch (const CommonError& damage) {
        if (!is_unusable(damage)) throw;
        if (ranks_->rank() == 0)
            warn(damage.what(), "; skipping the ", name_of(tried_), " of step ", meta_.step);
    }
    local_.reset();
    return false;
}

bool RestartPoint::load_checkpoint(const StateSource& needed, const Fill& fill) {
    const bool has_records = ranks_->max(std::holds_alternative<CheckpointIndex>(manifest_)) == 1;
    Manifest part;
    if (!has_records) part = part_from_first(needed);
    const auto read = [&] {
        if (has_records)
            part = read_part(folder_, std::get<CheckpointIndex>(manifest_), needs_of(needed));
        fill(folder_, part);
    };
    try {
        read_patiently<CommonError>(ranks_->rank() == 0, [&] { ranks_->run_on_all(read); });
        return true;
    } catch (const CommonError& damage) {
        skip_damaged(damage);
        return false;
    }
}

}  // namespace gptrain
