// The contents of a TensorMap of the emulated driver, and the driver's rules for it.
#pragma once

#include <string>

#include "cuda/device/tensor_map.h"

namespace gptrain::emulator {

/// The driver's objection to a request, by the rules of cuTensorMapEncodeTiled for bf16 elements,
/// no interleaving and a swizzle of 128 bytes; empty if it has none.
std::string objection_to(const cuda::TensorMapRequest& request);

/// The request that `map` was made from.
cuda::TensorMapRequest decoded(const cuda::TensorMap& map);

}  // namespace gptrain::emulator
