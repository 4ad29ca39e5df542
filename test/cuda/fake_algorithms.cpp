#include "cuda/fake_algorithms.h"

#include <algorithm>
#include <cublasLt.h>

namespace gptrain::test {
namespace {

struct Needs {
    FakeAlgorithm algorithm;
    std::uint64_t workspace = 0;
    std::uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    std::array<std::uint64_t, 5> alignments = {1, 1, 1, 1, 1};
};

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

/// In the library's order of preference.
constexpr std::array<Needs, fake_wide_epilogue> all = {{
    {.algorithm = fake_large, .workspace = 64 * mebibyte},
    {.algorithm = fake_in_place, .reduction = CUBLASLT_REDUCTION_SCHEME_INPLACE},
    {.algorithm = fake_in_output, .reduction = CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE},
    {.algorithm = fake_wide_a, .alignments = {32, 1, 1, 1, 1}},
    {.algorithm = fake_wide_b, .alignments = {1, 32, 1, 1, 1}},
    {.algorithm = fake_wide_c, .alignments = {1, 1, 32, 1, 1}},
    {.algorithm = fake_wide_d, .alignments = {1, 1, 1, 32, 1}},
    {.algorithm = fake_wide_epilogue, .alignments = {1, 1, 1, 1, 32}},
    {.algorithm = fake_slow},
    {.algorithm = fake_refused},
    {.algorithm = fake_fast,
     .workspace = 32 * mebibyte,
     .reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
    {.algorithm = fake_aligned, .alignments = {16, 16, 16, 16, 16}},
}};

const Needs& needs_of(FakeAlgorithm algorithm) {
    return *std::find_if(all.begin(), all.end(),
                         [=](const Needs& needs) { return needs.algorithm == algorithm; });
}

bool are_aligned(const Needs& needs, const Allowed& allowed) {
    return std::equal(needs.alignments.begin(), needs.alignments.end(), allowed.alignments.begin(),
                      [](std::uint64_t needed, std::uint64_t given) { return needed <= given; });
}

}  // namespace

std::uint64_t alignment_of(const void* address) {
    const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256;
    return bits & (~bits + 1);
}

std::vector<FakeAlgorithm> algorithms_within(const Allowed& allowed) {
    std::vector<FakeAlgorithm> result;
    for (const Needs& needs : all) {
        if (needs.workspace <= allowed.workspace && (needs.reduction & ~allowed.reductions) == 0 &&
            are_aligned(needs, allowed)) {
            result.push_back(needs.algorithm);
        }
    }
    return result;
}

bool is_algorithm(std::uint64_t number) {
    return number >= 1 && number <= all.size();
}

std::uint64_t workspace_of(FakeAlgorithm algorithm) {
    return needs_of(algorithm).workspace;
}

bool can_access(FakeAlgorithm algorithm, const Allowed& allowed) {
    return are_aligned(needs_of(algorithm), allowed);
}

}  // namespace gptrain::test
