#include "base/temporary_file.h"

#include <cerrno>
#include <random>
#include <system_error>
#include <unistd.h>

#include "base/error.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/temporary_names.h"
#include "base/text.h"

namespace gptrain {

std::filesystem::path temporary_path(const std::filesystem::path& target) {
    std::random_device random;
    return target.string() + text(temporary_mark, ::getpid(), "-", random(), "-", host_name());
}

bool is_abandoned(const std::filesystem::path& temporary) {
    const std::string name = temporary.filename().string();
    const std::size_t mark = name.rfind(temporary_mark);
    if (mark == std::string::npos) return false;
    // PID-NUMBER-HOST, where the host may contain dashes.
    const std::string_view rest = std::string_view(name).substr(mark + temporary_mark.size());
    const std::size_t first = rest.find('-');
    const std::size_t second = rest.find('-', first + 1);
    if (second == rest.npos || rest.substr(second + 1) != host_name()) return false;
    const auto pid = parse_int(rest.substr(0, first));
    if (!pid || *pid <= 0 || *pid > INT32_MAX) return false;
    return ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH;
}

std::vector<std::filesystem::path> abandoned_paths(const std::filesystem::path& target) {
    const std::string begin = text(target.filename().string(), temporary_mark);
    std::vector<std::filesystem::path> found;
    std::error_code error;  // a folder that cannot be read keeps its files
    std::filesystem::directory_iterator entries(folder_of(target), error);
    for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
        const bool of_target = entries->path().filename().string().starts_with(begin);
        if (of_target && is_abandoned(entries->path())) found.push_back(entries->path());
    }
    return found;
}

void remove_abandoned_files(const std::filesystem::path& target) {
    for (const std::filesystem::path& left : abandoned_paths(target))
        ::unlink(left.c_str());
}

TemporaryFile::TemporaryFile(const std::function<std::filesystem::path()>& make) {
    const DeferSignals held;
    path_ = make();
    add_temporary_name(path_.string());
}

TemporaryFile::TemporaryFile(const std::filesystem::path& path)
    : TemporaryFile([&] { return path; }) {}

TemporaryFile::~TemporaryFile() {
    const DeferSignals held;
    if (moved_) return;
    ::unlink(path_.c_str());
    drop_temporary_name(path_.string());
}

void TemporaryFile::move_to(const std::filesystem::path& target) {
    const DeferSignals held;
    rename_path(path_, target);
    moved_ = true;
    // From now on another process may use the name.
    drop_temporary_name(path_.string());
}

namespace {

/// The file, locked and empty.
File open_locked(const std::filesystem::path& path, const std::filesystem::path& target) {
    constexpr int most_attempts = 100;  // where numbers of files change, none has its name
    for (int attempt = 1;; ++attempt) {
        File file(path, File::Mode::update);
        if (file.try_lock() == File::Lock::held) {
            fail(ExitCode::io, path.string(), ": another process writes ", target.string(),
                 "; wait until it has ended, or choose another name");
        }
        // The process that had the lock before has renamed or removed its file.
        if (!file.is_at(path) && attempt < most_attempts) continue;
        if (std::filesystem::hard_link_count(path) > 1) {
            fail(ExitCode::usage, path.string(), ": is also a file under another name; remove it");
        }
        try {
            file.truncate(0);
        } catch (...) {
            ::unlink(path.c_str());
            throw;
        }
        return file;
    }
}

}  // namespace

void require_replaceable(const std::filesystem::path& target) {
    std::error_code missing;
    const auto type = std::filesystem::symlink_status(target, missing).type();
    if (type == std::filesystem::file_type::not_found ||
        type == std::filesystem::file_type::regular)
        return;
    fail(ExitCode::usage, target.string(),
         ": is there and not a plain file; remove it or choose another name");
}

LockedFile::LockedFile(const std::filesystem::path& target)
    : target_(target), temporary_([&] {
          require_replaceable(target_);
          const std::filesystem::path path = target_.string() + ".tmp";
          file_.emplace(open_locked(path, target_));
          return path;
      }) {}

void LockedFile::move_into_place() {
    temporary_.move_to(target_);
    file_->close();
}

void remove_leftover(const std::filesystem::path& temporary) {
    std::error_code missing;
    if (!std::filesystem::exists(temporary, missing)) return;
    File file(temporary, File::Mode::update);
    if (file.try_lock() == File::Lock::taken && file.is_at(temporary)) remove_path(temporary);
}

void write_file_durably(const std::filesystem::path& path, std::string_view bytes) {
    TemporaryFile temporary(temporary_path(path));
    File file(temporary.path(), File::Mode::create);
    file.write(bytes);
    file.sync();
    file.close();
    temporary.move_to(path);
    sync_folder(folder_of(path));
}

}  // namespace gptrain
