#include "support/failing_calls.h"

#include <cerrno>
#include <fcntl.h>
#include <stdio.h>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gptrain::test {
namespace {

std::atomic<FailingCalls*> active = nullptr;

std::filesystem::path path_of(int descriptor) {
    std::error_code ignored;
    return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), ignored);
}

bool hit(const std::filesystem::path& path) {
    FailingCalls* calls = active;
    return calls != nullptr && calls->hit(path);
}

/// Returns as the system does.
long failed(int error) {
    errno = error;
    return -1;
}

/// The bytes that a write should do; nothing if it should fail.
std::size_t part_of(std::size_t bytes) {
    return active.load()->error() != 0 ? 0 : bytes / 2;
}

ssize_t write_at(int descriptor, const void* data, std::size_t bytes, off_t offset) {
    if (hit(path_of(descriptor))) {
        bytes = part_of(bytes);
        if (bytes == 0) return failed(active.load()->error() != 0 ? active.load()->error() : EINTR);
    }
    return ::syscall(SYS_pwrite64, descriptor, data, bytes, offset);
}

int allocate(int descriptor, int mode, off_t offset, off_t bytes) {
    if (hit(path_of(descriptor)) && active.load()->error() != 0)
        return static_cast<int>(failed(active.load()->error()));
    return static_cast<int>(::syscall(SYS_fallocate, descriptor, mode, offset, bytes));
}

}  // namespace

FailingCalls::FailingCalls(std::filesystem::path folder, std::int64_t which, int error)
    : folder_(std::filesystem::absolute(folder)), which_(which), error_(error) {
    active = this;
}

FailingCalls::~FailingCalls() {
    active = nullptr;
}

bool FailingCalls::hit(const std::filesystem::path& path) {
    const std::string folder = folder_.string();
    if (path.string().compare(0, folder.size(), folder) != 0) return false;
    return ++seen_ == which_;
}

}  // namespace gptrain::test

using gptrain::test::active;
using gptrain::test::failed;
using gptrain::test::hit;

extern "C" {

ssize_t write(int descriptor, const void* data, std::size_t bytes) {
    if (hit(gptrain::test::path_of(descriptor))) {
        bytes = gptrain::test::part_of(bytes);
        if (bytes == 0) return failed(active.load()->error() != 0 ? active.load()->error() : EINTR);
    }
    return ::syscall(SYS_write, descriptor, data, bytes);
}

ssize_t pwrite(int descriptor, const void* data, std::size_t bytes, off_t offset) {
    return gptrain::test::write_at(descriptor, data, bytes, offset);
}
ssize_t pwrite64(int descriptor, const void* data, std::size_t bytes, off_t offset) {
    return gptrain::test::write_at(descriptor, data, bytes, offset);
}

int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
    return gptrain::test::allocate(descriptor, mode, offset, bytes);
}
int fallocate64(int descriptor, int mode, off_t offset, off_t bytes) {
    return gptrain::test::allocate(descriptor, mode, offset, bytes);
}

int fsync(int descriptor) {
    if (hit(gptrain::test::path_of(descriptor)) && active.load()->error() != 0)
        return static_cast<int>(failed(active.load()->error()));
    return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

int rename(const char* from, const char* to) noexcept {
    if (hit(std::filesystem::absolute(from)) && active.load()->error() != 0)
        return static_cast<int>(failed(active.load()->error()));
    return static_cast<int>(::syscall(SYS_rename, from, to));
}

int mkdir(const char* path, mode_t mode) noexcept {
    if (hit(std::filesystem::absolute(path)) && active.load()->error() != 0)
        return static_cast<int>(failed(active.load()->error()));
    return static_cast<int>(::syscall(SYS_mkdir, path, mode));
}

}  // extern "C"
