// The backend of NVIDIA GPUs from compute capability 8.0 on: products by cuBLASLt, everything else
// by hand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "backend/backend.h"

namespace gptrain {

namespace cuda {
class Stream;
}

/// Which kernels compute attention.
enum class CudaAttention {
    automatic,  ///< the fastest that are known to run on the device
    portable,   ///< those for every device
    sm90,       ///< those for compute capability 9.0
};

struct CudaOptions {
    /// Algorithms of products can be chosen by timing (Backend::tune); else they are as the library
    /// advises.
    bool tune_products = false;
    /// Where these choices are kept and found again; empty: nowhere.
    std::filesystem::path tuning_file = {};
    /// `replay` records: the second time in a CUDA graph, which is issued from then on.
    bool graphs = false;
    CudaAttention attention = CudaAttention::automatic;
    /// Else the gelu behind a product is done by the library where it can: faster, but from sums
    /// before they are rounded, so that recomputing it gives other bits.
    bool deterministic = true;
};

/// GPTRAIN_CUDA_GRAPHS=1: `graphs`; GPTRAIN_CUDA_ATTENTION=auto|portable|sm90: `attention`, another
/// word is an Error (usage).
CudaOptions options_of_environment();

/// Makes the device (an index among those that the process sees) current for this thread. No
/// usable device (probe.h), a missing library: Error (usage).
std::unique_ptr<Backend> make_cuda_backend(int device = 0, const CudaOptions& options = {});

/// What a CUDA backend needs, the same on every device; known without one, and in builds without
/// CUDA too (needs.cpp).
BackendNeeds cuda_needs();

/// The stream on which a CUDA backend computes; null for another backend.
const cuda::Stream* compute_stream(const Backend& backend);
/// From now on a CUDA backend calls `ask` again and again while its `wait` waits for the device;
/// what it throws ends the wait.
void while_waiting(Backend& backend, std::function<void()> ask);

}  // namespace gptrain
