// Files next to token files that say more about each token: which are learned (loss_mask.h), and
// how much they weigh (token_weights.h). Little-endian: eight bytes of magic, a u32 version, the
// u32 CRC-32C of all that follows, the i64 number of tokens, another i64 count, and the data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/file.h"

namespace gptrain {

constexpr std::int64_t side_header_bytes = 32;

/// A kind of these files.
struct SideFileKind {
    std::string_view words;  ///< for messages: "loss mask"
    std::string_view magic;  ///< seven letters and a zero
};

struct SideFileHeader {
    std::uint32_t checksum = 0;
    std::uint64_t tokens = 0;
    std::uint64_t count = 0;
};

/// Error (bad_input) with the file's name, and how to make it again.
[[noreturn]] void refuse_side_file(const MappedFile& file, const auto&... parts) {
    fail(ExitCode::bad_input, file.path().string(), ": ", parts...,
         "; regenerate the token files with gpt-preprocess chat");
}

/// Error (bad_input) unless it is a regular file.
MappedFile open_side_file(const std::filesystem::path& path, const SideFileKind& kind);
/// Checks length, magic and version: Error (bad_input).
SideFileHeader read_side_header(const MappedFile& file, const SideFileKind& kind);
/// The part of the checksum that comes from the counts of the header, before `data_bytes` bytes
/// of data (crc32c_part).
std::uint32_t counts_crc(const MappedFile& file, std::uint64_t data_bytes);

/// The checksum of a file of these counts, whose data has `data_crc`.
std::uint32_t side_checksum(std::int64_t tokens, std::int64_t count, std::uint32_t data_crc,
                            std::uint64_t data_bytes);
std::array<std::byte, side_header_bytes> side_header(const SideFileKind& kind,
                                                     std::uint32_t checksum, std::int64_t tokens,
                                                     std::int64_t count);

}  // namespace gptrain
