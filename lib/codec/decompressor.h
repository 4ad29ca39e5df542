// Decompression of gzip and zstd data, a piece at a time.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace gptrain {

/// A file is one member or several back to back ("frames" in zstd). Memory is bounded: 32 KiB for
/// gzip, 128 MiB for zstd, whose frames with a larger window are refused.
class Decompressor {
public:
    virtual ~Decompressor() = default;

    /// "gzip", "zstd"
    virtual std::string_view format() const = 0;
    /// True if a member may start with this byte.
    virtual bool may_start_with(std::byte byte) const = 0;

    struct Progress {
        std::size_t read = 0;     ///< bytes taken from the input
        std::size_t written = 0;  ///< bytes added to the output
        bool ended = false;       ///< the member is complete
        std::string fault;        ///< what is wrong with the data; empty if nothing is
        /// The fault is no damage: unpacking needs more memory than the bound.
        bool large_window = false;
    };
    /// Decompresses from `input`, which may be empty, until it is used up, `output` is full or the
    /// member ends. The next call after that begins a new member.
    virtual Progress decompress(std::span<const std::byte> input, std::span<std::byte> output) = 0;
};

/// For data with these first bytes (at least 4, or all of a shorter file); null if it is neither
/// gzip nor zstd.
std::unique_ptr<Decompressor> decompressor_for(std::span<const std::byte> start);

std::unique_ptr<Decompressor> gzip_decompressor();

/// The compressed formats: their file names' extension, and their name in messages.
struct CompressedFormat {
    std::string_view extension;
    std::string_view name;
};
inline constexpr std::array compressed_formats = {CompressedFormat{".gz", "gzip"},
                                                  CompressedFormat{".zst", "zstd"}};

/// "zlib 1.2.13, libzstd 1.5.4": the libraries in use.
std::string decompressor_versions();

}  // namespace gptrain
