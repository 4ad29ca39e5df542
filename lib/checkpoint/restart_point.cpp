#include "checkpoint/restart_point.h"

#include "base/log.h"
#include "checkpoint/block.h"
#include "checkpoint/load.h"
#include "checkpoint/manifest_part.h"
#include "checkpoint/verify.h"

namespace gptrain {

std::optional<RestartPoint> RestartPoint::find(std::vector<std::filesystem::path> candidates,
                                               const MpiSession& ranks) {
    RestartPoint point(std::move(candidates), ranks);
    point.single_candidate_ = ranks.max(std::ssize(point.candidates_)) == 1;
    if (!point.open_next()) return std::nullopt;
    return point;
}

bool RestartPoint::open_next() {
    ranks_->run_on_first([&] {
        if (!candidates_.empty()) open_first_that_verifies();
    });
    folder_ = ranks_->scatter([&](int) { return folder_.string(); });
    if (folder_.empty()) return false;
    meta_ = meta_from_message(ranks_->scatter([&](int) { return to_message(manifest_.meta); }));
    return true;
}

void RestartPoint::open_first_that_verifies() {
    while (next_ < candidates_.size()) {
        folder_ = candidates_[next_++];
        try {
            manifest_ = verify_checkpoint(folder_, VerifyDepth::structure);
            return;
        } catch (const Error& damage) {
            skip_damaged(damage);
        }
    }
    fail(ExitCode::bad_input, folder_.parent_path().string(), ": all ", candidates_.size(),
         " checkpoints are damaged; restore one, or move them away to start from scratch");
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
        const FileRecord* record = manifest_.find_file(name);
        if (record != nullptr) own = read_whole(folder_, *record, limit);
    });
    // A leading mark distinguishes an empty file from none.
    const std::string message = ranks_->scatter([&](int) { return own ? "+" + *own : ""; });
    if (message.empty()) return std::nullopt;
    return message.substr(1);
}

Manifest RestartPoint::part_of(const StateSource& needed) const {
    const auto needs = ranks_->gather(to_message(ShardRecords{{}, needs_of(needed)}));
    const ManifestParts parts(manifest_);
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
    load(needed, fill, check_candidate);
}

void RestartPoint::load(const StateSource& needed, const Fill& fill,
                        const std::function<void()>& check_candidate) {
    for (bool loaded = false; !loaded;) {
        const Manifest part = part_of(needed);
        try {
            ranks_->run_on_all([&] { fill(folder_, part); });
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
