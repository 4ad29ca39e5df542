// The algorithms of the stand-in for cuBLASLt, and which of them may compute a GEMM: what each
// needs, against what the caller allows and has.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

/// The library prefers those from `fake_large` on, but each of them needs what gptrain never
/// allows. After them it offers, in this order, slow, refused and fast ones for every GEMM that it
/// supports, and `fake_aligned` if everything is aligned to 16 bytes.
enum FakeAlgorithm {
    fake_slow = 1,
    fake_refused,    ///< not supported, but the heuristic does not know
    fake_fast,       ///< needs 32 MiB of workspace and sums its parts in fp32
    fake_aligned,    ///< not supported either
    fake_large,      ///< needs more workspace
    fake_in_place,   ///< sums its parts in the result
    fake_in_output,  ///< sums its parts in the result's dtype
    fake_wide_a,     ///< needs an alignment of 32 bytes of this matrix, or of the epilogue's
    fake_wide_b,
    fake_wide_c,
    fake_wide_d,
    fake_wide_epilogue,
};

namespace gptrain::test {

/// The limits that the caller sets while the library chooses, or has when it computes.
struct Allowed {
    std::uint64_t workspace = 0;
    std::uint32_t reductions = 7;  ///< CUBLASLT_REDUCTION_SCHEME_MASK
    /// In bytes: matrices A, B, C, D and the epilogue's pointers.
    std::array<std::uint64_t, 5> alignments = {256, 256, 256, 256, 256};
};

/// The alignment of an address in bytes, at most 256; null is aligned.
std::uint64_t alignment_of(const void* address);

/// The algorithms that need no more than this, in the library's order of preference.
std::vector<FakeAlgorithm> algorithms_within(const Allowed& allowed);

/// True if the library has an algorithm of this number.
bool is_algorithm(std::uint64_t number);
/// The workspace of an algorithm in bytes.
std::uint64_t workspace_of(FakeAlgorithm algorithm);
/// True if the algorithm can read and write memory of these alignments.
bool can_access(FakeAlgorithm algorithm, const Allowed& allowed);

}  // namespace gptrain::test
