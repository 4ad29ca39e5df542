// The bytes of a text file, decompressed if it is gzip. Only the .cpp uses zlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/file.h"

namespace gptrain {

/// Reads one file or pipe once, from start to end. Gzip data is decompressed on the way, all
/// members of it. Errors (bad_input) name the file: missing, a folder, named .gz but not gzip data,
/// or damaged or truncated gzip data.
class InputFile {
public:
    explicit InputFile(const std::filesystem::path& path);
    InputFile(InputFile&&) noexcept;
    InputFile& operator=(InputFile&&) noexcept;
    ~InputFile();

    const std::filesystem::path& path() const { return file_.path(); }
    /// Fills `bytes` with the next bytes; returns how many, fewer only at the end.
    std::size_t read(std::span<std::byte> bytes);

private:
    struct Gzip;

    /// Reads the next stored bytes; false at the end of the file.
    bool fill();
    std::size_t unpack(std::span<std::byte> bytes);
    /// After a complete member: true if another one starts, false at the end of the file.
    bool begin_member();
    [[noreturn]] void fail_damaged(const char* what) const;

    File file_;
    std::vector<std::byte> stored_;  ///< bytes of the file; [at_, filled_) is unused
    std::size_t at_ = 0;
    std::size_t filled_ = 0;
    std::int64_t stored_begin_ = 0;  ///< offset of stored_ in the file
    std::unique_ptr<Gzip> gzip_;     ///< null: not gzip data
};

/// True if a regular file starts like gzip data. False if it cannot be read.
bool is_gzip(const std::filesystem::path& path);

}  // namespace gptrain
