// Files whose every system call is checked, and writes that survive a power cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace gptrain {

/// An open file; closed when it goes. Errors are `Error` (io) that name the path. Several threads
/// may call `read_at` and `write_at` of one file at a time.
class File {
public:
    enum class Mode {
        read,    ///< existing file
        create,  ///< new or emptied file
        append,  ///< new or existing file, writes go to its end
        update,  ///< existing or new file, read and written at positions
    };

    File(const std::filesystem::path& path, Mode mode);
    File(File&& other) noexcept;
    File& operator=(File&& other) noexcept;
    ~File();

    const std::filesystem::path& path() const { return path_; }
    int descriptor() const { return descriptor_; }
    std::int64_t size() const;

    /// Writes all bytes at the file position (or at its end in append mode), in as few calls as the
    /// system allows.
    void write(std::span<const std::byte> bytes);
    void write(std::string_view bytes) { write(std::as_bytes(std::span(bytes))); }
    /// Writes all bytes at `offset`.
    void write_at(std::int64_t offset, std::span<const std::byte> bytes);
    /// Reads up to bytes.size() bytes; returns how many, fewer only at the end of the file.
    std::size_t read(std::span<std::byte> bytes);
    /// Reads exactly bytes.size() bytes at `offset`; an earlier end of file is an Error
    /// (bad_input).
    void read_at(std::int64_t offset, std::span<std::byte> bytes) const;
    void truncate(std::int64_t bytes);
    /// Reserves disk space for the first `bytes` bytes (ENOSPC shows here, before anything is
    /// lost).
    void reserve(std::int64_t bytes);
    /// Lets the system begin to bring a range to the disk, so that `sync` has less to wait for.
    /// Only `sync` says whether it got there.
    void begin_sync(std::int64_t offset, std::int64_t bytes);
    /// Waits until the contents are on the disk.
    void sync();
    /// Closes now and reports what close reports; the destructor cannot.
    void close();

private:
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

/// What lies at a path that a user gave. Where nothing does, an Error with the code `fault` that
/// says "no such WHAT", of a relative path also the folder that it was taken from, and `advice`.
std::filesystem::file_type require_path(const std::filesystem::path& path, ExitCode fault,
                                        std::string_view what, std::string_view advice = "");

/// Whether a file's name says that it is a run spec: .yaml or .yml.
bool named_yaml(const std::filesystem::path& path);

/// The whole of a regular file. A file that is missing, not regular, or larger than `limit` bytes
/// is an Error with the code `fault`.
std::string read_file(const std::filesystem::path& path, std::int64_t limit,
                      ExitCode fault = ExitCode::bad_input);

/// Replaces `path` by a file with these bytes so that after any crash either the old or the new
/// contents are there: temporary file, fsync, rename, fsync of the folder.
void write_file_durably(const std::filesystem::path& path, std::string_view bytes);

/// Waits until names made or removed in `folder` are on the disk.
void sync_folder(const std::filesystem::path& folder);

/// Creates the folder and the missing ones above it.
void create_folders(const std::filesystem::path& folder);

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

/// Removes a file or an empty folder.
void remove_path(const std::filesystem::path& path);

}  // namespace gptrain
