#include "base/file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/checked.h"
#include "base/error.h"

namespace gptrain {
namespace {

int flags_of(File::Mode mode) {
    switch (mode) {
        case File::Mode::read: return O_RDONLY;
        case File::Mode::create: return O_WRONLY | O_CREAT | O_TRUNC;
        case File::Mode::append: return O_WRONLY | O_CREAT | O_APPEND;
        case File::Mode::update: return O_RDWR | O_CREAT;
    }
    return O_RDONLY;
}

struct stat status_of(int descriptor, const std::filesystem::path& path) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) fail_errno(errno, path.string());
    return status;
}

}  // namespace

File::File(const std::filesystem::path& path, Mode mode)
    : path_(path), descriptor_(::open(path.c_str(), flags_of(mode) | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) fail_errno(errno, path_.string());
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

void File::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail_errno(errno, path_.string(), ": write");
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

void File::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
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
            fail(ExitCode::bad_input, path_.string(), ": ends at byte ", offset, ", ", bytes.size(),
                 " bytes early");
        }
        bytes = bytes.subspan(static_cast<std::size_t>(count));
        offset += count;
    }
}

void File::truncate(std::int64_t bytes) {
    if (::ftruncate(descriptor_, bytes) != 0) fail_errno(errno, path_.string(), ": truncate");
}

void File::reserve(std::int64_t bytes) {
    if (bytes == 0) return;
    int error = EINTR;
    while (error == EINTR)
        error = ::posix_fallocate(descriptor_, 0, bytes);
    if (error != 0) {
        fail_errno(error, path_.string(), ": cannot reserve ", human_bytes(bytes), " on the disk");
    }
}

void File::begin_sync(std::int64_t offset, std::int64_t bytes) {
    // Not every file system can, and none has to.
    ::sync_file_range(descriptor_, offset, bytes, SYNC_FILE_RANGE_WRITE);
}

void File::sync() {
    while (::fsync(descriptor_) != 0) {
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

std::string read_file(const std::filesystem::path& path, std::int64_t limit, ExitCode fault) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status)) {
        fail(fault, path.string(), ": ", error ? error.message() : error_text(ENOENT));
    }
    if (!std::filesystem::is_regular_file(status)) {
        fail(fault, path.string(), ": not a regular file");
    }
    File file(path, File::Mode::read);
    const std::int64_t size = file.size();
    if (size > limit) {
        fail(fault, path.string(), ": ", human_bytes(size), " is more than the limit of ",
             human_bytes(limit));
    }
    std::string contents(static_cast<std::size_t>(size), '\0');
    contents.resize(file.read(std::as_writable_bytes(std::span(contents))));
    return contents;
}

void write_file_durably(const std::filesystem::path& path, std::string_view bytes) {
    const std::filesystem::path temporary = path.string() + ".tmp";
    try {
        File file(temporary, File::Mode::create);
        file.write(bytes);
        file.sync();
        file.close();
    } catch (const Error&) {
        ::unlink(temporary.c_str());
        throw;
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0)
        fail_errno(errno, path.string(), ": rename");
    sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

void sync_folder(const std::filesystem::path& folder) {
    File handle(folder, File::Mode::read);
    handle.sync();
}

void create_folders(const std::filesystem::path& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) fail(ExitCode::io, folder.string(), ": cannot create the folder: ", error.message());
}

}  // namespace gptrain
