#include "report/run_directory.h"

#include <array>
#include <cerrno>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"

namespace gptrain {
namespace {

std::string this_process() {
    return text("process ", static_cast<std::int64_t>(::getpid()), " on ", host_name());
}

std::filesystem::path created(const std::filesystem::path& folder) {
    std::error_code error;
    if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error)) {
        fail(ExitCode::usage, "output_dir ", folder.string(), ": is a file, not a folder");
    }
    create_folders(folder);
    return folder;
}

File open_lock(const RunPaths& paths) {
    if (::access(paths.folder.c_str(), W_OK | X_OK) != 0) {
        fail_errno(errno, "output_dir ", paths.folder.string(), ": is not writable");
    }
    return {paths.lock(), File::Mode::update};
}

std::string holder_named_in(File& lock) {
    std::string name(512, '\0');
    name.resize(lock.read(std::as_writable_bytes(std::span(name))));
    return name.empty() ? "another process" : name;
}

/// Uses flock, because its lock disappears with the process even if that is killed.
void take_lock(File& lock, const RunPaths& paths) {
    if (::flock(lock.descriptor(), LOCK_EX | LOCK_NB) == 0) {
        lock.truncate(0);
        lock.write(this_process());
        return;
    }
    if (errno == EWOULDBLOCK) {
        fail(ExitCode::usage, "output_dir ", paths.folder.string(), ": in use by ",
             holder_named_in(lock), "; stop that run or choose another output_dir");
    }
    if (errno != ENOSYS && errno != EOPNOTSUPP && errno != ENOLCK) {
        fail_errno(errno, paths.lock().string(), ": lock");
    }
    warn(paths.folder.string(),
         ": this file system does not support locks; make sure that no other run writes there");
}

}  // namespace

RunDirectory::RunDirectory(const std::filesystem::path& folder)
    : paths_{created(folder)}, folder_(paths_.folder, File::Mode::read), lock_(open_lock(paths_)) {
    take_lock(lock_, paths_);
}

bool RunDirectory::still_held() const {
    struct stat own {};
    struct stat named {};
    if (::fstat(folder_.descriptor(), &own) != 0) return true;
    if (::stat(paths_.folder.c_str(), &named) != 0) return errno != ENOENT && errno != ENOTDIR;
    return own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

}  // namespace gptrain
