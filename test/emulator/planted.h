// Kernels with a planted bug, next to their correct version.
#pragma once

#include <string>

#include "cuda/runtime/runtime.h"

namespace gptrain::test {

enum class Version { right, planted };

/// Maps `in`, 4096 floats, to `out`, 4096 floats that are NaN before; the last two of them are
/// counters, 0 before.
using Kernel = void (*)(Version, const float* in, float* out);
constexpr int counter_place = 4094;

/// The message with which a version fails on a device of compute capability `major`.0; empty if it
/// runs in all orders.
std::string error_of(Kernel kernel, Version version, const cuda::LaunchShape& shape, int major = 9);

/// The correct version runs, gives the same results in all orders, and writes numbers. Without race
/// detection, the planted version's results depend on the order or are NaN.
void check_visible(Kernel kernel, const cuda::LaunchShape& shape);

/// The correct version runs as above. The emulator refuses the planted one in each order, in the
/// ascending one with these words.
void check_refused(Kernel kernel, const cuda::LaunchShape& shape, const std::string& words);
/// The same for a race, if plain accesses are seen.
void check_race(Kernel kernel, const cuda::LaunchShape& shape, const std::string& words = "a race");

}  // namespace gptrain::test
