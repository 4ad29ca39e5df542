// The bytes of a text file, unpacked where it is a gzip file. zlib is seen only in its source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/file.h"

namespace gptrain {

/// Reads one file or pipe once, from start to end. What begins like gzip data is unpacked on the
/// way, all members of it. Errors (bad_input) name the file: one that is missing, a folder, one
/// that is named .gz and is no gzip data, and gzip data that are damaged or end early.
class InputFile {
public:
    explicit InputFile(const std::filesystem::path& path);
    InputFile(InputFile&&) noexcept;
    InputFile& operator=(InputFile&&) noexcept;
    ~InputFile();

    const std::filesystem::path& path() const { return file_.path(); }
    /// Fills `bytes` from what comes next; returns how many, fewer only at the end.
    std::size_t read(std::span<std::byte> bytes);

private:
    struct Gzip;

    /// Reads the next stored bytes; false at the end of the file.
    bool fill();
    std::size_t unpack(std::span<std::byte> bytes);
    /// Behind a whole member: true if another one begins, false at the end of the file.
    bool begin_member();
    [[noreturn]] void fail_damaged(const char* what) const;

    File file_;
    std::vector<std::byte> stored_;  ///< as in the file: [at_, filled_) is still to be used
    std::size_t at_ = 0;
    std::size_t filled_ = 0;
    std::int64_t stored_begin_ = 0;  ///< of stored_ in the file
    std::unique_ptr<Gzip> gzip_;     ///< null: not gzip data
};

/// Whether a regular file begins like gzip data. False for what cannot be read.
bool is_gzip(const std::filesystem::path& path);

}  // namespace gptrain
