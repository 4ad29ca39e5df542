#include "base/file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/checked.h"
#include "base/file_calls.h"
#include "base/inputs.h"
#include "base/path_checks.h"
#include "base/process.h"

namespace gptrain {
namespace {

int flags_of(File::Mode mode) {
    // Without O_NONBLOCK a FIFO in place of a file would wait for a reader. Plain files ignore it.
    constexpr int plain = O_CREAT | O_NOFOLLOW | O_NONBLOCK;
    switch (mode) {
        case File::Mode::read: return O_RDONLY;
        case File::Mode::create: return O_WRONLY | O_CREAT | O_EXCL;
        case File::Mode::append: return O_WRONLY | O_APPEND | plain;
        case File::Mode::update: return O_RDWR | plain;
        case File::Mode::through: return O_WRONLY;
    }
    return O_RDONLY;
}

int open_file(const std::filesystem::path& path, File::Mode mode) {
    const auto open = [&] { return ::open(path.c_str(), flags_of(mode) | O_CLOEXEC, 0666); };
    if (mode != File::Mode::read) refuse_variables(path);
    const int descriptor = mode == File::Mode::read ? open() : checked_call("open", path, open);
    if (descriptor >= 0) return descriptor;
    if (errno == ELOOP && (mode == File::Mode::append || mode == File::Mode::update)) {
        fail(ExitCode::io, path.string(),
             ": is a symbolic link, and gptrain does not write through links here; remove it or "
             "put the file in its place");
    }
    fail_errno(errno, path.string());
}

/// The folder in which a relative path is resolved, worded for an error; empty for other paths.
std::string starting_folder(const std::filesystem::path& path) {
    if (path.is_absolute()) return "";
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::current_path(error);
    if (error) return "";
    return text(" (relative to ", folder.string(), ", where the program was started)");
}

struct stat status_of(int descriptor, const std::filesystem::path& path) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) fail_errno(errno, path.string());
    return status;
}

}  // namespace

File::File(const std::filesystem::path& path, int descriptor)
    : path_(path), descriptor_(descriptor) {}

File::File(const std::filesystem::path& path, Mode mode) : File(path, open_file(path, mode)) {
    if (mode == Mode::create || mode == Mode::through) return;
    const struct stat status = status_of(descriptor_, path_);
    if (mode == Mode::read) {
        if (is_lfs_pointer(descriptor_)) {
            fail(ExitCode::bad_input, path.string(),
                 ": is a git-LFS pointer, not the file itself; fetch that with `git lfs pull`");
        }
        note_input(status, path_);
        return;
    }
    if (!S_ISREG(status.st_mode))
        fail(ExitCode::io, path.string(), ": is not a plain file; remove it");
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
}

File::~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

std::int64_t File::size() const {
    return status_of(descriptor_, path_).st_size;
}

bool File::is_at(const std::filesystem::path& other) const {
    struct stat own {};
    struct stat found {};
    if (::fstat(descriptor_, &own) != 0) return true;
    if (::stat(other.c_str(), &found) != 0) return errno != ENOENT && errno != ENOTDIR;
    return own.st_dev == found.st_dev && own.st_ino == found.st_ino;
}

File::Lock File::try_lock() {
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        if (errno == EWOULDBLOCK) return Lock::held;
        if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS) return Lock::unsupported;
        fail_errno(errno, path_.string(), ": lock");
    }
    return Lock::taken;
}

void File::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = checked_write("write", path_, bytes.size(), [&](std::size_t count) {
            return ::write(descriptor_, bytes.data(), count);
        });
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail_errno(errno, path_.string(), ": write");
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

void File::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = checked_write(
            "pwrite", path_, bytes.size(),
            [&](std::size_t count) { return ::pwrite(descriptor_, bytes.data(), count, offset); });
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail_errno(errno, path_.string(), ": write");
        bytes = bytes.subspan(static_cast<std::size_t>(written));
        offset += written;
    }
}

std::size_t File::read(std::span<std::byte> bytes) {
    std::size_t total = 0;
    while (total < bytes.size()) {
        const ssize_t count = ::read(descriptor_, bytes.data() + total, bytes.size() - total);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail_errno(errno, path_.string(), ": read");
        if (count == 0) break;
        total += static_cast<std::size_t>(count);
    }
    return total;
}

void File::read_at(std::int64_t offset, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), offset);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail_errno(errno, path_.string(), ": read");
        if (count == 0) {
            fail(ExitCode::bad_input, path_.string(), ": truncated: ends at byte ", offset, ", ",
                 bytes.size(), " bytes missing");
        }
        bytes = bytes.subspan(static_cast<std::size_t>(count));
        offset += count;
    }
}

void File::truncate(std::int64_t bytes) {
    const auto truncate = [&] { return ::ftruncate(descriptor_, bytes); };
    if (checked_call("ftruncate", path_, truncate) != 0)
        fail_errno(errno, path_.string(), ": truncate");
}

void File::reserve(std::int64_t bytes) {
    if (bytes == 0) return;
    const auto allocate = [&] { return ::fallocate(descriptor_, 0, 0, bytes); };
    while (checked_call("fallocate", path_, allocate) != 0) {
        if (errno == EINTR) continue;
        if (errno == EOPNOTSUPP || errno == ENOSYS) {
            if (size() < bytes) truncate(bytes);
            return;
        }
        fail_errno(errno, path_.string(), ": cannot reserve ", human_bytes(bytes), " on the disk");
    }
}

void File::begin_sync(std::int64_t offset, std::int64_t bytes) {
    // Optional: not every file system supports it.
    ::sync_file_range(descriptor_, offset, bytes, SYNC_FILE_RANGE_WRITE);
}

void File::sync() {
    const auto sync = [&] { return ::fsync(descriptor_); };
    while (checked_call("fsync", path_, sync) != 0) {
        if (errno != EINTR) fail_errno(errno, path_.string(), ": fsync");
    }
}

void File::close() {
    if (descriptor_ < 0) return;
    if (::close(std::exchange(descriptor_, -1)) != 0) fail_errno(errno, path_.string(), ": close");
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
    const File file(path, File::Mode::read);
    const struct stat status = status_of(file.descriptor(), path);
    if (!S_ISREG(status.st_mode)) fail(ExitCode::bad_input, path.string(), ": not a regular file");
    if (status.st_size == 0) return;
    const auto size = static_cast<std::size_t>(status.st_size);
    void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
    if (start == MAP_FAILED && errno == ENOMEM)
        fail(ExitCode::usage, path.string(), ": cannot be mapped: ", out_of_memory());
    if (start == MAP_FAILED) fail_errno(errno, path.string(), ": mmap");
    bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::filesystem::file_type require_path(const std::filesystem::path& path, ExitCode fault,
                                        std::string_view what, std::string_view advice) {
    std::error_code error;
    const auto type = std::filesystem::status(path, error).type();
    if (type == std::filesystem::file_type::not_found) {
        const std::string name = path.empty() ? "''" : path.string();
        fail(fault, name, ": no such ", what, starting_folder(path), advice);
    }
    // The failure of a disk or a file server is no fault of the path.
    const bool failed =
        error.value() == EIO || error.value() == ESTALE || error.value() == ETIMEDOUT;
    if (error) fail(failed ? ExitCode::io : fault, path.string(), ": ", error.message());
    return type;
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
    return file.has_parent_path() ? file.parent_path() : ".";
}

std::filesystem::path absolute_path(const std::filesystem::path& path) {
    std::error_code error;
    const std::filesystem::path absolute =
        std::filesystem::absolute(path, error).lexically_normal();
    if (error) fail(ExitCode::io, path.string(), ": ", error.message());
    return absolute.has_filename() ? absolute : absolute.parent_path();
}

void require_new(const std::filesystem::path& path, std::string_view option) {
    std::error_code ignored;
    if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return;
    fail(ExitCode::usage, option, " ", path.string(), ": exists; remove it or choose another name");
}

bool named_yaml(const std::filesystem::path& path) {
    return path.extension() == ".yaml" || path.extension() == ".yml";
}

std::string read_file(const std::filesystem::path& path, std::int64_t limit, ExitCode fault) {
    if (require_path(path, fault, "file") != std::filesystem::file_type::regular) {
        fail(fault, path.string(), ": not a regular file");
    }
    File file(path, File::Mode::read);
    const std::int64_t size = file.size();
    if (size > limit) {
        fail(fault, path.string(), ": ", human_bytes(size), " exceeds the limit of ",
             human_bytes(limit));
    }
    std::string contents(static_cast<std::size_t>(size), '\0');
    contents.resize(file.read(std::as_writable_bytes(std::span(contents))));
    return contents;
}

void sync_folder(const std::filesystem::path& folder) {
    File handle(folder, File::Mode::read);
    handle.sync();
}

void create_folders(const std::filesystem::path& folder) {
    refuse_variables(folder);
    const auto create = [&] {
        std::error_code error;
        std::filesystem::create_directories(folder, error);
        errno = error.value();
        return error ? -1 : 0;
    };
    if (checked_call("mkdir", folder, create) != 0)
        fail_errno(errno, folder.string(), ": cannot create the folder");
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
    const auto rename = [&] { return ::rename(from.c_str(), to.c_str()); };
    if (checked_call("rename", from, rename) != 0)
        fail_errno(errno, from.string(), ": cannot rename to ", to.string());
}

void remove_path(const std::filesystem::path& path) {
    const auto remove = [&] { return ::remove(path.c_str()); };
    if (checked_call("remove", path, remove) != 0)
        fail_errno(errno, path.string(), ": cannot be removed");
}

}  // namespace gptrain
