// Sizes of kernels from which their need of scratch memory follows (needs.cpp): plain numbers, the
// same on every device.
#pragma once

#include <cstdint>

namespace gptrain::cuda {

/// Blocks of a norm's backward, each with sums of its own for dweight and dbias: two for each
/// multiprocessor of a large GPU, or one where a thread holds more than a piece of a row.
constexpr std::int64_t norm_parts = 264;
/// Rows of a group of threads at least, so that the parts are small beside what they are sums of.
constexpr std::int64_t norm_group_rows = 4;

}  // namespace gptrain::cuda
