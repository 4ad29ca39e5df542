// PREFIX.mask: which tokens of PREFIX.bin a model learns, one bit each. Little-endian and packed:
//   0   8 bytes  "GPTMASK" and a zero byte
//   8   u32      version, 1
//  12   u32      CRC-32C of everything from byte 16 on
//  16   u64      T, number of tokens
//  24   u64      number of learned tokens
//  32   u8[ceil(T / 8)]  token t is learned if bit t mod 8 (0 the lowest) of byte floor(t / 8) is
//                        set; the bits after the last token are 0
// PREFIX.meta.json names the mask by its CRC (token_meta.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "comm/mpi_session.h"
#include "data/share.h"
#include "data/side_file.h"

namespace gptrain {

/// PREFIX.mask.
std::filesystem::path mask_path(const std::filesystem::path& prefix);

/// The bytes that hold the bits of this many tokens.
constexpr std::int64_t mask_bit_bytes(std::int64_t tokens) {
    return tokens / 8 + (tokens % 8 != 0 ? 1 : 0);
}

/// A validated, memory-mapped mask. Thread-safe for reading.
class LossMask {
public:
    /// Reads every byte once: a wrong header, size, count or checksum, or a set bit after the last
    /// token, is an Error (bad_input) that names the file, as is a file that is missing. All
    /// `ranks`, if given, construct it together within run_on_all, and share the reading.
    explicit LossMask(const std::filesystem::path& path, const MpiSession* ranks = nullptr);

    const std::filesystem::path& path() const { return file_.path(); }
    std::int64_t tokens() const { return tokens_; }
    std::int64_t learned() const { return learned_; }
    std::uint32_t checksum() const { return checksum_; }

    /// Writes 1 for each learned token from `begin` on, 0 for each other. A range outside the mask
    /// is an Error (bug).
    void read(std::int64_t begin, std::span<std::uint8_t> out) const;
    void read(std::int64_t begin, std::span<float> out) const;
    /// The learned tokens of [begin, end).
    std::int64_t count(std::int64_t begin, std::int64_t end) const;

private:
    /// The facts that all ranks find together by reading the file once.
    struct Facts {
        std::uint32_t crc = 0;
        std::int64_t learned = 0;
    };
    void check_header();
    Facts check(Share share) const;
    /// The same, unless an earlier start has found the facts on this node.
    Facts check_or_recall(Share share) const;
    Facts check_together(const MpiSession& ranks) const;
    void require(const Facts& found) const;
    bool bit(std::int64_t token) const;
    template <class T>
    void read_as(std::int64_t begin, std::span<T> out) const;

    MappedFile file_;
    std::int64_t tokens_ = 0;
    std::int64_t learned_ = 0;
    std::uint32_t checksum_ = 0;
};

/// Packs the bits of a mask in the order of tokens, and knows what its header records of them.
class MaskPacker {
public:
    /// Appends the whole bytes that these tokens complete to `out`. Any number but 0 is learned.
    void add(std::span<const std::uint8_t> learned, std::vector<std::byte>& out);
    /// Appends the last byte if it is incomplete. Add nothing after it.
    void finish(std::vector<std::byte>& out);

    std::int64_t learned() const { return learned_; }
    /// After `finish`: the checksum, and the first bytes of the file.
    std::uint32_t checksum() const;
    std::array<std::byte, side_header_bytes> header() const;

private:
    void take(std::byte bits, std::vector<std::byte>& out);

    std::int64_t tokens_ = 0;
    std::int64_t learned_ = 0;
    std::int64_t bytes_ = 0;
    std::uint32_t bits_crc_ = 0;
    std::uint8_t open_byte_ = 0;
};

}  // namespace gptrain
