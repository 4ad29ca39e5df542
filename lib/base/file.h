// Files with every system call checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace gptrain {

/// Owns an open file. Failures are Errors (io) that name the path. Several threads may call
/// `read_at` and `write_at` on one file concurrently.
class File {
public:
    /// Plain files alone are created or changed, and never through a symbolic link. `through` is
    /// for what a user names as an output, such as /dev/stderr or a FIFO.
    enum class Mode {
        read,     ///< an existing file, which counts as an input from now on (inputs.h)
        create,   ///< a new file; an existing one is an Error
        append,   ///< a new or existing file; writes go to its end
        update,   ///< a new or existing file; reads and writes at positions
        through,  ///< anything that exists; writes only
    };
    enum class Lock {
        taken,
        held,         ///< by another process
        unsupported,  ///< by the file system: NFS and Lustre may have no locks
    };

    File(const std::filesystem::path& path, Mode mode);
    File(File&& other) noexcept;
    File& operator=(File&& other) noexcept;
    ~File();

    const std::filesystem::path& path() const { return path_; }
    int descriptor() const { return descriptor_; }
    std::int64_t size() const;
    /// True if `other` is a path of this file, or if the file system does not answer.
    bool is_at(const std::filesystem::path& other) const;

    /// Locks the file until it is closed, without waiting. The kernel drops the lock of a process
    /// that ends, however it ends (flock).
    Lock try_lock();

    /// Writes all bytes at the file position (at the end in append mode), in as few calls as the
    /// system allows.
    void write(std::span<const std::byte> bytes);
    void write(std::string_view bytes) { write(std::as_bytes(std::span(bytes))); }
    /// Writes all bytes at `offset`.
    void write_at(std::int64_t offset, std::span<const std::byte> bytes);
    /// Reads up to bytes.size() bytes; returns how many, fewer only at the end of the file.
    std::size_t read(std::span<std::byte> bytes);
    /// Reads exactly bytes.size() bytes at `offset`. A file that ends before is an Error
    /// (bad_input).
    void read_at(std::int64_t offset, std::span<std::byte> bytes) const;
    void truncate(std::int64_t bytes);
    /// Makes the file at least `bytes` long and reserves the disk space, so that a full disk shows
    /// before anything is lost. On a file system that cannot reserve (NFS before version 4.2, older
    /// Lustre), it shows when the bytes are written.
    void reserve(std::int64_t bytes);
    /// Starts writing a range to disk, so that `sync` has less to wait for. Only `sync` reports
    /// success.
    void begin_sync(std::int64_t offset, std::int64_t bytes);
    /// Waits until the contents are durable.
    void sync();
    /// Closes now and reports errors, which the destructor cannot.
    void close();

private:
    File(const std::filesystem::path& path, int descriptor);

    std::filesystem::path path_;
    int descriptor_ = -1;
};

/// A file mapped for reading. An empty file maps to an empty span.
class MappedFile {
public:
    explicit MappedFile(const std::filesystem::path& path);
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return bytes_; }
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
    std::span<const std::byte> bytes_;
};

/// The type of the file at a path that a user gave. If the file is missing: an Error with the code
/// `fault`, "no such WHAT", followed by the folder that a relative path was resolved in, and
/// `advice`.
std::filesystem::file_type require_path(const std::filesystem::path& path, ExitCode fault,
                                        std::string_view what, std::string_view advice = "");

/// The folder that holds the file: "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& file);

/// The path from the root, without "." and a slash at its end.
std::filesystem::path absolute_path(const std::filesystem::path& path);

/// Error (usage) that names `option` if its path exists.
void require_new(const std::filesystem::path& path, std::string_view option);

/// True if the name is that of a run spec: .yaml or .yml.
bool named_yaml(const std::filesystem::path& path);

/// Reads a whole regular file. A file that is missing, not regular, or larger than `limit` bytes is
/// an Error with the code `fault`.
std::string read_file(const std::filesystem::path& path, std::int64_t limit,
                      ExitCode fault = ExitCode::bad_input);

/// Makes names created or removed in `folder` durable.
void sync_folder(const std::filesystem::path& folder);

/// Creates the folder and its missing parents.
void create_folders(const std::filesystem::path& folder);

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

/// Removes a file or an empty folder.
void remove_path(const std::filesystem::path& path);

}  // namespace gptrain
