#include "checkpoint/folder.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "base/file_calls.h"
#include "base/log.h"
#include "base/parallel_for.h"
#include "base/signals.h"
#include "base/temporary_file.h"
#include "base/temporary_names.h"

namespace gptrain {
namespace {

/// Marks a checkpoint that hands its name to a new one: "step-000500.tmp-aside".
constexpr std::string_view aside_mark = ".tmp-aside";
/// A removal is a round trip to a file server, and a checkpoint has two files for each rank.
constexpr int removing_threads = 8;

/// The entries of the folder; none if it does not exist. Error (io) if it cannot be listed or is a
/// dangling link, such as one to a file system that is not mounted.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
    std::error_code error;
    if (!std::filesystem::exists(folder, error)) {
        if (error) fail(ExitCode::io, folder.string(), ": ", error.message());
        if (std::filesystem::is_symlink(std::filesystem::symlink_status(folder, error))) {
            fail(ExitCode::io, folder.string(), ": is a link to ",
                 std::filesystem::read_symlink(folder, error).string(),
                 ", which does not exist; is its file system mounted?");
        }
        return {};
    }
    std::vector<std::filesystem::path> entries;
    auto entry = std::filesystem::directory_iterator(folder, error);
    while (!error && entry != std::filesystem::directory_iterator()) {
        entries.push_back(entry->path());
        entry.increment(error);
    }
    if (error) fail(ExitCode::io, folder.string(), ": cannot list the folder: ", error.message());
    return entries;
}

void remove_tree(const std::filesystem::path& path) {
    std::error_code ignored;
    const auto status = std::filesystem::symlink_status(path, ignored);
    if (!std::filesystem::exists(status)) return;
    if (std::filesystem::is_directory(status)) {
        const std::vector<std::filesystem::path> entries = entries_of(path);
        parallel_for(std::ssize(entries), removing_threads,
                     [&](std::int64_t i) { remove_tree(entries[static_cast<std::size_t>(i)]); });
    }
    remove_path(path);
}

/// Exchanges the names of a new folder and a checkpoint. Whatever fails, the checkpoint's name is
/// that of one of them, or the checkpoint has the name that remove_leftovers restores.
void exchange(const std::filesystem::path& temporary, const std::filesystem::path& checkpoint) {
    const auto at_once = [&] {
        return ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, checkpoint.c_str(),
                           RENAME_EXCHANGE);
    };
    if (checked_call("renameat2", temporary, at_once) == 0) return;
    if (errno == ENOENT) {  // another start has removed it
        fail_errno(errno, temporary.string(), ": cannot rename to ", checkpoint.string());
    }
    // Some file systems cannot exchange two names.
    const std::filesystem::path aside = checkpoint.string() + std::string(aside_mark);
    rename_path(checkpoint, aside);
    try {
        rename_path(temporary, checkpoint);
    } catch (const Error&) {
        rename_path(aside, checkpoint);
        throw;
    }
    rename_path(aside, temporary);
}

/// Removes an unfinished save under another name: a process that is about to commit it, or still
/// writes it, no longer finds it.
void remove_renamed(const std::filesystem::path& unfinished,
                    const std::filesystem::path& checkpoint) {
    std::filesystem::path renamed = temporary_path(checkpoint);
    try {
        rename_path(unfinished, renamed);
    } catch (const Error&) {
        renamed = unfinished;
    }
    remove_or_warn(renamed);
}

}  // namespace

std::string checkpoint_name(std::int64_t step) {
    const std::string digits = text(step);
    return text("step-", std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0'), digits);
}

std::optional<std::int64_t> checkpoint_step(const std::string& name) {
    constexpr std::string_view prefix = "step-";
    if (name.compare(0, prefix.size(), prefix) != 0) return std::nullopt;
    const auto step = parse_int(std::string_view(name).substr(prefix.size()));
    if (!step || *step < 0 || name != checkpoint_name(*step)) return std::nullopt;
    return step;
}

std::vector<CheckpointFolder> list_checkpoints(const std::filesystem::path& folder) {
    std::vector<CheckpointFolder> found;
    for (const std::filesystem::path& entry : entries_of(folder)) {
        const auto step = checkpoint_step(entry.filename().string());
        if (!step) continue;
        // One that cannot be inspected still counts as existing.
        std::error_code error;
        const auto status = std::filesystem::status(entry, error);
        if (std::filesystem::is_directory(status) || !std::filesystem::status_known(status))
            found.push_back({*step, entry});
    }
    std::sort(found.begin(), found.end(),
              [](const CheckpointFolder& a, const CheckpointFolder& b) { return a.step > b.step; });
    return found;
}

TemporaryFolder::TemporaryFolder(const std::filesystem::path& parent, const std::string& name)
    : path_(temporary_path(parent / name)) {
    const DeferSignals held;
    create_folders(path_);
    add_temporary_name(path_.string());
}

TemporaryFolder::~TemporaryFolder() {
    const DeferSignals held;
    drop_temporary_name(path_.string());
    remove_or_warn(path_);
}

void remove_leftovers(const std::filesystem::path& folder, const std::function<void()>& may_write) {
    const auto is_left = [](const std::filesystem::path& entry) {
        const std::string name = entry.filename().string();
        return name.starts_with("step-") && name.find(temporary_mark) != std::string::npos;
    };
    std::vector<std::filesystem::path> left = entries_of(folder);
    std::erase_if(left, [&](const auto& entry) { return !is_left(entry); });
    if (left.empty()) return;
    if (may_write) may_write();
    for (const std::filesystem::path& entry : left) {
        const std::string name = entry.filename().string();
        const std::size_t mark = name.find(temporary_mark);
        const std::filesystem::path checkpoint = folder / name.substr(0, mark);
        if (name.substr(mark) == aside_mark && !is_there(checkpoint)) {
            print("restoring ", checkpoint.string(), ", which was being replaced");
            rename_path(entry, checkpoint);
            sync_folder(folder);
            continue;
        }
        print("removing unfinished ", entry.string());
        remove_renamed(entry, checkpoint);
    }
}

void remove_abandoned(const std::filesystem::path& path) {
    for (const std::filesystem::path& left : abandoned_paths(path)) {
        print("removing unfinished ", left.string());
        remove_or_warn(left);
    }
}

void commit_folder(const std::filesystem::path& temporary,
                   const std::filesystem::path& final_path) {
    const std::filesystem::path folder = final_path.parent_path();
    if (!is_there(final_path)) {
        rename_path(temporary, final_path);
        sync_folder(folder);
        return;
    }
    exchange(temporary, final_path);
    try {
        sync_folder(folder);
    } catch (const Error&) {
        exchange(temporary, final_path);
        throw;
    }
    remove_or_warn(temporary);
}

bool is_there(const std::filesystem::path& path) {
    std::error_code error;
    const bool found = std::filesystem::exists(path, error);
    if (error) fail(ExitCode::io, path.string(), ": ", error.message());
    return found;
}

bool is_missing(const std::filesystem::path& path) {
    std::error_code error;
    return !std::filesystem::exists(path, error) && !error;
}

void remove_or_warn(const std::filesystem::path& path) {
    try {
        remove_tree(path);
    } catch (const Error& error) {
        warn(error.what());
    }
}

}  // namespace gptrain
