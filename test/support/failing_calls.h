// System calls that fail, in an executable that links failing_calls.cpp. It overrides the C
// library's functions for this program and for the libraries that it uses.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

namespace gptrain::test {

/// During its lifetime, calls that change something in `folder` are counted: write, pwrite, fsync,
/// fallocate, rename, mkdir. Call number `which` (from 1; 0: none) fails with `error`; if
/// `error` is 0, a write does half of its work and other calls run normally. Only one may exist at
/// a time.
class FailingCalls {
public:
    FailingCalls(std::filesystem::path folder, std::int64_t which, int error);
    FailingCalls(const FailingCalls&) = delete;
    FailingCalls& operator=(const FailingCalls&) = delete;
    ~FailingCalls();

    std::int64_t seen() const { return seen_; }
    bool happened() const { return which_ > 0 && seen_ >= which_; }

    /// True if the call that changes `path` should fail.
    bool hit(const std::filesystem::path& path);
    int error() const { return error_; }

private:
    std::filesystem::path folder_;
    std::int64_t which_;
    int error_;
    std::atomic<std::int64_t> seen_ = 0;
};

}  // namespace gptrain::test
