#include "base/inputs.h"

#include <mutex>
#include <set>

namespace gptrain {
namespace {

struct Inputs {
    std::mutex mutex;
    std::set<FileIdentity> files;
};

Inputs& inputs() {
    static Inputs all;
    return all;
}

}  // namespace

std::optional<FileIdentity> identity_of(const std::filesystem::path& path) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) return std::nullopt;
    return FileIdentity{status.st_dev, status.st_ino};
}

void note_input(const struct stat& status) {
    if (!S_ISREG(status.st_mode)) return;
    const std::lock_guard lock(inputs().mutex);
    inputs().files.insert({status.st_dev, status.st_ino});
}

bool is_input(const std::filesystem::path& path) {
    const auto identity = identity_of(path);
    const std::lock_guard lock(inputs().mutex);
    return identity && inputs().files.contains(*identity);
}

}  // namespace gptrain
