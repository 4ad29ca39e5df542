#include "base/temporary_file.h"

#include <mutex>
#include <set>
#include <string>
#include <unistd.h>

#include "base/file.h"
#include "base/signals.h"

namespace gptrain {
namespace {

/// Accessed by the signal handler. Never destroyed, because a signal may arrive during process
/// exit.
struct Names {
    std::mutex mutex;
    std::multiset<std::string> names;
};

Names& all() {
    static Names& names = *new Names;
    return names;
}

}  // namespace

TemporaryFile::TemporaryFile(const std::function<std::filesystem::path()>& make) {
    const DeferSignals held;
    path_ = make();
    const std::lock_guard lock(all().mutex);
    all().names.insert(path_.string());
}

TemporaryFile::TemporaryFile(const std::filesystem::path& path)
    : TemporaryFile([&] { return path; }) {}

TemporaryFile::~TemporaryFile() {
    const DeferSignals held;
    if (!moved_) ::unlink(path_.c_str());
    const std::lock_guard lock(all().mutex);
    const auto found = all().names.find(path_.string());
    if (found != all().names.end()) all().names.erase(found);
}

void TemporaryFile::move_to(const std::filesystem::path& target) {
    rename_path(path_, target);
    moved_ = true;
}

void remove_temporary_files() {
    for (const std::string& name : all().names)
        ::unlink(name.c_str());
}

}  // namespace gptrain
