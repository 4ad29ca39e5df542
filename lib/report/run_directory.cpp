#include "report/run_directory.h"

#include <cerrno>
#include <system_error>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "base/text.h"

namespace gptrain {
namespace {

std::string this_process() {
    return text("process ", static_cast<std::int64_t>(::getpid()), " on ", host_name());
}

/// Creates the folder with those above it. Returns the folders that were missing, the lowest first.
std::vector<std::filesystem::path> create(const std::filesystem::path& folder) {
    std::error_code error;
    if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error)) {
        fail(ExitCode::usage, "output_dir ", folder.string(), ": is a file, not a folder");
    }
    std::vector<std::filesystem::path> missing;
    for (std::filesystem::path at = folder; !at.empty(); at = at.parent_path()) {
        if (std::filesystem::exists(at, error) || error) break;
        missing.push_back(at);
    }
    create_folders(folder);
    return missing;
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

bool holds_only(const std::filesystem::path& folder, const std::filesystem::path& file) {
    std::error_code error;
    for (std::filesystem::directory_iterator at(folder, error), end; at != end;
         at.increment(error)) {
        if (error || at->path() != file) return false;
    }
    return !error;
}

void take_lock(File& lock, const RunPaths& paths, ExitCode if_held) {
    switch (lock.try_lock()) {
        case File::Lock::taken:
            lock.truncate(0);
            lock.write(this_process());
            return;
        case File::Lock::held:
            fail(if_held, "output_dir ", paths.folder.string(), ": in use by ",
                 holder_named_in(lock), "; stop that run or choose another output_dir");
        case File::Lock::unsupported:
            warn(paths.folder.string(),
                 ": this file system does not support locks; make sure that "
                 "no other run writes there");
    }
}

}  // namespace

RunDirectory::RunDirectory(const std::filesystem::path& folder, ExitCode if_held)
    : paths_{folder},
      new_folders_(create(folder)),
      folder_(paths_.folder, File::Mode::read),
      lock_(open_lock(paths_)) {
    take_lock(lock_, paths_, if_held);
}

RunDirectory::~RunDirectory() {
    if (new_folders_.empty() || !still_held() || !holds_only(paths_.folder, paths_.lock())) return;
    std::error_code error;
    std::filesystem::remove(paths_.lock(), error);
    for (const std::filesystem::path& made : new_folders_) {
        std::filesystem::remove(made, error);
        if (error) return;  // it holds something
    }
}

bool RunDirectory::still_held() const {
    return folder_.is_at(paths_.folder) && lock_.is_at(paths_.lock());
}

}  // namespace gptrain
