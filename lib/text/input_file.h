// The bytes of a text file, decompressed if it is gzip or zstd data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "codec/decompressor.h"

namespace gptrain {

/// Reads one file or pipe once, from start to end. Gzip and zstd data, recognised by its first
/// bytes, is decompressed while it is read, all members of it. Errors (bad_input) name the file:
/// missing, a folder, named .gz or .zst but not such data, or damaged or truncated data.
class InputFile {
public:
    explicit InputFile(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return file_.path(); }
    /// Fills `bytes` with the next bytes; returns how many, fewer only at the end.
    std::size_t read(std::span<std::byte> bytes);

private:
    /// Reads the next stored bytes; false at the end of the file.
    bool fill();
    std::size_t copy(std::span<std::byte> bytes);
    std::size_t decompress(std::span<std::byte> bytes);
    /// After a complete member: true if another one starts, false at the end of the file.
    bool begin_member();
    [[noreturn]] void fail_damaged(std::string_view what) const;
    [[noreturn]] void fail_large_window() const;

    File file_;
    std::vector<std::byte> stored_;  ///< bytes of the file; [at_, filled_) is unused
    std::size_t at_ = 0;
    std::size_t filled_ = 0;
    std::int64_t stored_begin_ = 0;               ///< offset of stored_ in the file
    std::unique_ptr<Decompressor> decompressor_;  ///< null: not compressed
    bool between_members_ = false;
    bool output_waits_ = false;  ///< the decompressor may give output without more input
};

/// True if a regular file starts like gzip or zstd data. False if it cannot be read.
bool is_compressed(const std::filesystem::path& path);

}  // namespace gptrain
