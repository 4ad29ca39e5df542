// The calls of the system that change files, in one place where a test can make them fail. Those of
// `File` and of its neighbours and of the folder of checkpoints go through it; HDF5 makes its own.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <sys/types.h>

namespace gptrain {

/// What is to become of a call.
struct CallFate {
    int error = 0;      ///< it fails with this error and does nothing
    bool half = false;  ///< a write does half of its bytes, and at least one
};

/// Decides about calls, each before it is made and on its thread. What it throws is thrown by the
/// function that wanted to call.
class CallFates {
public:
    virtual ~CallFates() = default;
    virtual CallFate fate_of(std::string_view call, const std::filesystem::path& path) = 0;
};

/// From now on `fates` (null: nobody) decides about the calls of this process, for tests of what
/// happens when they fail. It is taken away, while no other thread makes calls, before it goes.
void let_decide(CallFates* fates);

/// What becomes of a call that is about to change `path`.
CallFate fate_of(std::string_view call, const std::filesystem::path& path);

/// Makes a call that changes `path` and returns what it returns; -1 with errno where it fails.
template <class Call>
int change(std::string_view name, const std::filesystem::path& path, const Call& call) {
    const CallFate fate = fate_of(name, path);
    if (fate.error == 0) return call();
    errno = fate.error;
    return -1;
}

/// The same for a call that writes up to so many bytes: `call(bytes)`.
template <class Call>
ssize_t change_bytes(std::string_view name, const std::filesystem::path& path, std::size_t bytes,
                     const Call& call) {
    const CallFate fate = fate_of(name, path);
    if (fate.error == 0) return call(fate.half ? std::max<std::size_t>(bytes / 2, 1) : bytes);
    errno = fate.error;
    return -1;
}

}  // namespace gptrain
