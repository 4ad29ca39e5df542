#include "base/temporary_names.h"

#include <mutex>
#include <set>
#include <unistd.h>

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

void add_temporary_name(const std::string& name) {
    const std::lock_guard lock(all().mutex);
    all().names.insert(name);
}

void drop_temporary_name(const std::string& name) {
    const std::lock_guard lock(all().mutex);
    const auto found = all().names.find(name);
    if (found != all().names.end()) all().names.erase(found);
}

void remove_temporary_files() {
    for (const std::string& name : all().names)
        ::unlink(name.c_str());
}

}  // namespace gptrain
