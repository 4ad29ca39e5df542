// System calls that change files, in one place where a test can make them fail. `File`, the
// functions of file.h and the checkpoint folder use it; HDF5 makes its own calls.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <sys/types.h>

namespace gptrain {

/// How a call is to end.
struct CallFate {
    int error = 0;      ///< fail with this error and do nothing
    bool half = false;  ///< write only half of the bytes, at least one
};

/// Decides the fate of calls, before each call and on its thread. Exceptions propagate to the
/// caller.
class CallInterceptor {
public:
    virtual ~CallInterceptor() = default;
    virtual CallFate intercept(std::string_view call, const std::filesystem::path& path) = 0;
};

/// From now on `fates` (null: none) intercepts this process's calls, so that tests can make them
/// fail. Remove it before it is destroyed, while no other thread makes calls.
void intercept_calls(CallInterceptor* fates);

/// The fate of a call that is about to change `path`.
CallFate intercept(std::string_view call, const std::filesystem::path& path);

/// Makes a call that changes `path` and returns its result; -1 with errno set if it is to fail.
int checked_call(std::string_view name, const std::filesystem::path& path, const auto& call) {
    const CallFate fate = intercept(name, path);
    if (fate.error == 0) return call();
    errno = fate.error;
    return -1;
}

/// The same for a call that writes up to `bytes` bytes: `call(bytes)`.
ssize_t checked_write(std::string_view name, const std::filesystem::path& path, std::size_t bytes,
                      const auto& call) {
    const CallFate fate = intercept(name, path);
    if (fate.error == 0) return call(fate.half ? std::max<std::size_t>(bytes / 2, 1) : bytes);
    errno = fate.error;
    return -1;
}

}  // namespace gptrain
