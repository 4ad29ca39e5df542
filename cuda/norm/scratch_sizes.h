// Kernel sizes that determine scratch memory (needs.cpp): plain numbers, the same on every device.
#pragma once

#include <cstdint>

namespace gptrain::cuda {

/// The maximum number of blocks in a norm's backward, each with its own sums for dweight and dbias:
/// two per multiprocessor of a large GPU, or one if a thread holds more than one piece of a row.
constexpr std::int64_t norm_parts = 264;
/// The minimum number of rows per group of threads, so that the parts are small compared to their
/// inputs.
constexpr std::int64_t norm_group_rows = 4;

}  // namespace gptrain::cuda
