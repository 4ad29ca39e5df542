// Compares two ways to compute a GEMM.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cuda/gemm/gemm.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// No multiple of a factor of a tile's size.
constexpr std::int64_t compared_row_distance = 67;

/// Runs both on the GEMM's operands and compares every 67th row and the last one of c and of gelu,
/// so rows at all places of a tile, and a_totals. Describes the first element that differs by more
/// than other orders of summation in fp32 explain, or that is not finite in one of them alone;
/// empty if there is none. Overwrites these rows before each run, those of c with 0 if the GEMM
/// accumulates, and a_totals with 0. Waits for the device.
std::string result_difference(const Gemm& gemm, const std::function<void()>& reference,
                              const std::function<void()>& other, const Stream& stream);

}  // namespace gptrain::cuda
