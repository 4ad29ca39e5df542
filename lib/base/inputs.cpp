#include "base/inputs.h"

#include <map>
#include <mutex>

namespace gptrain {
namespace {

struct Inputs {
    std::mutex mutex;
    std::map<FileIdentity, std::filesystem::path> files;
};

Inputs& inputs() {
    // Never destroyed: a thread may read a file while the process exits.
    static Inputs& all = *new Inputs;
    return all;
}

}  // namespace

std::optional<FileIdentity> identity_of(const std::filesystem::path& path) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) return std::nullopt;
    return FileIdentity{status.st_dev, status.st_ino};
}

void note_input(const struct stat& status, const std::filesystem::path& path) {
    if (!S_ISREG(status.st_mode)) return;
    const std::lock_guard lock(inputs().mutex);
    inputs().files.insert_or_assign({status.st_dev, status.st_ino}, path);
}

bool is_input(const std::filesystem::path& path) {
    const auto identity = identity_of(path);
    if (!identity) return false;
    const std::lock_guard lock(inputs().mutex);
    const auto found = inputs().files.find(*identity);
    return found != inputs().files.end() && identity_of(found->second) == identity;
}

}  // namespace gptrain
