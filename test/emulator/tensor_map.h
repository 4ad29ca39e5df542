// What the emulated driver keeps in a TensorMap, and the driver's rules for it.
#pragma once

#include <string>

#include "cuda/device/tensor_map.h"

namespace gptrain::emulator {

/// What the driver objects to, by the rules of cuTensorMapEncodeTiled for bf16 elements, no
/// interleaving and a swizzle of 128 bytes; empty if nothing.
std::string objection_to(const cuda::TensorMapRequest& request);

/// What `map` was made from.
cuda::TensorMapRequest decoded(const cuda::TensorMap& map);

}  // namespace gptrain::emulator
