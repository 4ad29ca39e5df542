#include "cpu/nf4.h"

#include <vector>

#include "base/at.h"
#include "cpu/parallel.h"
#include "cpu/row_kernels.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// Blocks block_of(0) to block_of(count - 1) of `out`.
void widen_blocks(const Nf4Matrix& x, const Tensor& out, std::int64_t count, const auto& block_of) {
    GPTRAIN_CHECK(out.contiguous() && out.elements() == x.shape.elements(), "NF4 matrix ",
                  x.shape.to_text(), " to ", out.shape().to_text());
    const auto* codes = x.codes.as<std::uint8_t>();
    const Nf4Scales scales = x.scales_of_blocks();
    with_compute_type(out.dtype(), [&](auto type) {
        auto* to = out.as<decltype(type)>();
        const auto& kernels = row_kernels<decltype(type)>();
        parallel_ranges(count, nf4_block, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                const std::int64_t block = block_of(i);
                kernels.from_nf4(codes + block * (nf4_block / 2), scales(block),
                                 to + block * nf4_block);
            }
        });
    });
}

}  // namespace

void run(const FromNf4& args) {
    widen_blocks(args.x, args.out, args.out.elements() / nf4_block,
                 [](std::int64_t i) { return i; });
}

void run(const GroupedFromNf4& args) {
    const auto* offsets = args.offsets.as<std::int32_t>();
    const std::int64_t blocks = args.x.part.blocks;
    std::vector<std::int64_t> begins;  // of the matrices of experts with rows
    for (std::int64_t expert = 0; expert < args.out.size(0); ++expert)
        if (offsets[expert] < offsets[expert + 1]) begins.push_back(expert * blocks);
    widen_blocks(args.x, args.out, std::ssize(begins) * blocks,
                 [&](std::int64_t i) { return at(begins, i / blocks) + i % blocks; });
}

}  // namespace gptrain::cpu
