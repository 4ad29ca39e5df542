// PREFIX.weights: how much the learned tokens of PREFIX.bin count, where that is less than 1.
// Little-endian and packed:
//   0   8 bytes  "GPTWGHT" and a zero byte
//   8   u32      version, 1
//  12   u32      CRC-32C of everything from byte 16 on
//  16   u64      T, number of tokens
//  24   u64      R, number of runs
//  32   R times  u64  the first token of a run of learned tokens
//                u32  the number of its tokens, at least 1
//                f32  the weight of each, above 0 and below 1
// Runs are in order and apart. Learned tokens outside of them have the weight 1, all others 0
// (loss_mask.h). PREFIX.meta.json names the file by its CRC (token_meta.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "comm/mpi_session.h"
#include "data/loss_mask.h"
#include "data/share.h"
#include "data/side_file.h"

namespace gptrain {

/// PREFIX.weights.
std::filesystem::path weights_path(const std::filesystem::path& prefix);

/// Consecutive learned tokens of one weight.
struct WeightRun {
    std::int64_t first = 0;
    std::int64_t count = 0;
    float weight = 1;

    std::int64_t end() const { return first + count; }
};

constexpr std::int64_t weight_run_bytes = 16;

/// Validated, memory-mapped weights. Thread-safe for reading.
class TokenWeights {
public:
    /// Reads every byte once: a wrong header, size, run or checksum, or a run of tokens that `mask`
    /// does not have as learned, is an Error (bad_input) that names the file, as is a file that is
    /// missing. All `ranks`, if given, construct it together within run_on_all, and share the
    /// reading.
    TokenWeights(const std::filesystem::path& path, const LossMask& mask,
                 const MpiSession* ranks = nullptr);

    std::int64_t runs() const { return runs_; }
    std::uint32_t checksum() const { return checksum_; }
    /// The tokens of all runs.
    std::int64_t tokens() const;

    /// Writes the weights of the tokens from `begin` on that are in a run, and leaves the others.
    void apply(std::int64_t begin, std::span<float> weights) const;

private:
    void check_header(const LossMask& mask);
    /// The share's part of the checksum.
    std::uint32_t check(const LossMask& mask, Share share) const;
    /// The same, unless an earlier start has found it on this node.
    std::uint32_t check_or_recall(const LossMask& mask, Share share) const;
    WeightRun run(std::int64_t index) const;

    MappedFile file_;
    std::int64_t runs_ = 0;
    std::uint32_t checksum_ = 0;
};

/// Finds the runs in the weights of sequences, and knows what their header records of them.
class WeightPacker {
public:
    /// Appends the runs of a sequence that begins at token `first` to `out`. A weight is 0 for a
    /// token that is not learned, and at most 1.
    void add(std::int64_t first, std::span<const float> weights, std::vector<std::byte>& out);
    /// Appends runs of another packer, whose tokens come `shift` tokens later here.
    void add_runs(std::span<const std::byte> runs, std::int64_t shift, std::vector<std::byte>& out);

    std::int64_t runs() const { return runs_; }
    std::uint32_t checksum(std::int64_t tokens) const;
    /// The first bytes of the file.
    std::array<std::byte, side_header_bytes> header(std::int64_t tokens) const;

private:
    void take(const WeightRun& run, std::vector<std::byte>& out);

    std::int64_t runs_ = 0;
    std::uint32_t runs_crc_ = 0;
};

}  // namespace gptrain
