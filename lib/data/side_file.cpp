#include "data/side_file.h"

#include <cstring>

#include "base/bytes.h"
#include "base/crc32c.h"

namespace gptrain {
namespace {

constexpr std::uint32_t side_version = 1;
constexpr std::size_t counted_from = 16;  // of the file, by the checksum

}  // namespace

MappedFile open_side_file(const std::filesystem::path& path, const SideFileKind& kind) {
    const auto type = require_path(path, ExitCode::bad_input, kind.words,
                                   "; its .meta.json says that these token files have one");
    if (type != std::filesystem::file_type::regular)
        fail(ExitCode::bad_input, path.string(), ": not a regular file");
    return MappedFile(path);
}

SideFileHeader read_side_header(const MappedFile& file, const SideFileKind& kind) {
    const auto bytes = file.bytes();
    if (std::ssize(bytes) < side_header_bytes) {
        refuse_side_file(file, "is ", std::ssize(bytes), " bytes long, but a ", kind.words,
                         " has at least ", side_header_bytes);
    }
    if (std::memcmp(bytes.data(), kind.magic.data(), kind.magic.size()) != 0) {
        refuse_side_file(file, "does not start with ", kind.magic.substr(0, kind.magic.size() - 1),
                         ": not a ", kind.words);
    }
    const auto version = value_at<std::uint32_t>(bytes, 8);
    if (version != side_version) {
        fail(ExitCode::bad_input, file.path().string(), ": has version ", version,
             "; this program reads version ", side_version, ": use a newer program");
    }
    return {.checksum = value_at<std::uint32_t>(bytes, 12),
            .tokens = value_at<std::uint64_t>(bytes, 16),
            .count = value_at<std::uint64_t>(bytes, 24)};
}

std::uint32_t counts_crc(const MappedFile& file, std::uint64_t data_bytes) {
    const auto counts = file.bytes().subspan(
        counted_from, static_cast<std::size_t>(side_header_bytes) - counted_from);
    return crc32c_part(counts, data_bytes);
}

std::uint32_t side_checksum(std::int64_t tokens, std::int64_t count, std::uint32_t data_crc,
                            std::uint64_t data_bytes) {
    const std::array<std::int64_t, 2> counts = {tokens, count};
    return crc32c_combine(crc32c(counts.data(), sizeof counts), data_crc, data_bytes);
}

std::array<std::byte, side_header_bytes> side_header(const SideFileKind& kind,
                                                     std::uint32_t checksum, std::int64_t tokens,
                                                     std::int64_t count) {
    std::array<std::byte, side_header_bytes> header{};
    const auto put = [&](std::size_t at, const auto& value) {
        std::memcpy(header.data() + at, &value, sizeof value);
    };
    std::memcpy(header.data(), kind.magic.data(), kind.magic.size());
    put(8, side_version);
    put(12, checksum);
    put(16, tokens);
    put(24, count);
    return header;
}

}  // namespace gptrain
