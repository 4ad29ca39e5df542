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
    point.only_one_ = ranks.largest(std::ssize(point.candidates_)) == 1;
    if (!point.open_next()) return std::nullopt;
    return point;
}

bool RestartPoint::open_next() {
    ranks_->first_alone([&] {
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
            pass_over(damage);
        }
    }
    fail(ExitCode::bad_input, folder_.parent_path().string(), ": holds ", candidates_.size(),
         " checkpoints and all are damaged; restore one, or move them away to start anew");
}

void RestartPoint::pass_over(const Error& damage) {
    if (only_one_ || (damage.code() != ExitCode::bad_input && damage.code() != ExitCode::io)) throw;
    if (ranks_->rank() != 0) return;
    warn(damage.what(), "; checkpoint ", folder_.filename().string(), " is passed over");
}

std::optional<std::string> RestartPoint::whole_file(const std::string& name,
                                                    std::int64_t limit) const {
    std::optional<std::string> own;
    ranks_->first_alone([&] {
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
                        const std::function<void()>& accept) {
    const Fill fill = [&](const std::filesystem::path& folder, const Manifest& part) {
        load_state(folder, part, backend, needed);
    };
    load(needed, fill, accept);
}

void RestartPoint::load(const StateSource& needed, const Fill& fill,
                        const std::function<void()>& accept) {
    for (bool loaded = false; !loaded;) {
        const Manifest part = part_of(needed);
        try {
            ranks_->together([&] { fill(folder_, part); });
            loaded = true;
        } catch (const CommonError& damage) {
            pass_over(damage);
            open_next();
            ranks_->together(accept);
        }
    }
    manifest_ = {};
}

}  // namespace gptrain
