#include "base/temporary_names.h"

#include <dirent.h>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <sys/syscall.h>
#include <unistd.h>

namespace gptrain {
namespace {

struct Names {
    std::mutex mutex;
    std::multiset<std::string> names;
};
/// Accessed by the signal handler. Made before main, because a handler must not allocate: its
/// signal may have stopped malloc. Never destroyed, because a signal may arrive during process
/// exit.
Names& all = *new Names;

/// Removes a folder without folders in it. Only system calls: a signal handler cannot use opendir.
void remove_folder(const char* path) {
    const int folder = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return;
    alignas(dirent64) char entries[4096];
    long bytes = 0;
    while ((bytes = ::syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
        for (long at = 0; at < bytes;) {
            const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
            ::unlinkat(folder, entry->d_name, 0);
            at += entry->d_reclen;
        }
    }
    ::close(folder);
    ::rmdir(path);
}

}  // namespace

void add_temporary_name(const std::string& name) {
    const std::lock_guard lock(all.mutex);
    all.names.insert(name);
}

void drop_temporary_name(const std::string& name) {
    const std::lock_guard lock(all.mutex);
    const auto found = all.names.find(name);
    if (found != all.names.end()) all.names.erase(found);
}

void remove_temporary_files() {
    for (const std::string& name : all.names)
        if (::unlink(name.c_str()) != 0) remove_folder(name.c_str());
}

void remove_unless_in_use() {
    const std::unique_lock lock(all.mutex, std::try_to_lock);
    if (lock) remove_temporary_files();
}

}  // namespace gptrain
