#include "checkpoint/retention.h"

#include <sys/stat.h>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/temporary_file.h"
#include "checkpoint/verify.h"

namespace gptrain {

VerifiedCheckpoints::Stamp VerifiedCheckpoints::stamp_of(const CheckpointFolder& checkpoint) {
    struct stat status {};
    if (::stat((checkpoint.path / "manifest.json").c_str(), &status) != 0) return {};
    return {
        .inode = status.st_ino,
        .bytes = status.st_size,
        .changed = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

void VerifiedCheckpoints::add(const CheckpointFolder& checkpoint) {
    stamps_[checkpoint.step] = stamp_of(checkpoint);
}

void VerifiedCheckpoints::reject(const CheckpointFolder& checkpoint) {
    stamps_.erase(checkpoint.step);
    rejected_[checkpoint.step] = stamp_of(checkpoint);
}

bool VerifiedCheckpoints::contains(const CheckpointFolder& checkpoint) const {
    const auto known = stamps_.find(checkpoint.step);
    const Stamp stamp = stamp_of(checkpoint);
    return known != stamps_.end() && known->second == stamp && stamp != Stamp{};
}

bool VerifiedCheckpoints::is_rejected(const CheckpointFolder& checkpoint) const {
    const auto found = rejected_.find(checkpoint.step);
    return found != rejected_.end() && found->second == stamp_of(checkpoint);
}

bool VerifiedCheckpoints::verifies(const CheckpointFolder& checkpoint) {
    if (is_rejected(checkpoint)) return false;
    if (contains(checkpoint)) return true;
    try {
        verify_checkpoint(checkpoint.path, VerifyDepth::structure);
    } catch (const Error&) {
        return false;
    }
    add(checkpoint);
    return true;
}

void remove_old_checkpoints(const Retention& retention, std::int64_t newest,
                            VerifiedCheckpoints& verified, const std::function<void()>& may_write) {
    if (retention.keep_last == Retention::all) return;
    const std::filesystem::path& folder = retention.folder;
    std::int64_t kept = 0;
    std::vector<std::filesystem::path> old;
    for (const CheckpointFolder& checkpoint : list_checkpoints(folder)) {
        if (checkpoint.step > newest) continue;
        if (kept < retention.keep_last) {
            kept += verified.verifies(checkpoint) ? 1 : 0;
            continue;
        }
        if (retention.keep_every > 0 && checkpoint.step % retention.keep_every == 0) continue;
        old.push_back(checkpoint.path);
    }
    if (old.empty()) return;
    if (may_write) may_write();
    std::vector<std::filesystem::path> removed;
    for (const std::filesystem::path& checkpoint : old) {
        const auto temporary = temporary_path(checkpoint);
        try {
            rename_path(checkpoint, temporary);
            removed.push_back(temporary);
        } catch (const Error& error) {
            warn(error.what());
        }
    }
    if (removed.empty()) return;
    sync_folder(folder);
    for (const std::filesystem::path& path : removed)
        remove_or_warn(path);
}

}  // namespace gptrain
