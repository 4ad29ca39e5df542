// The backend of NVIDIA GPUs from compute capability 8.0 on: products by cuBLASLt, everything else
// by hand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "backend/backend.h"

namespace gptrain {

namespace cuda {
class Stream;
}

struct CudaOptions {
    /// The algorithms of products are chosen by timing, at the first call with each shape; else as
    /// the library advises.
    bool tune_products = false;
    /// Where these choices are kept and found again (products-GPU.txt); empty: nowhere.
    std::filesystem::path tuning_folder = {};
    /// `replay` records: the second time in a CUDA graph, which is issued from then on.
    bool graphs = false;
};

/// Makes the device (an index among those that the process sees) current for this thread. No
/// usable device (probe.h), a missing library: Error (usage).
std::unique_ptr<Backend> make_cuda_backend(int device = 0, const CudaOptions& options = {});

/// What CudaBackend::scratch_bytes returns, on any device and on machines without one.
std::int64_t cuda_scratch_bytes(const OpLimits& limits);

/// The stream on which a CUDA backend computes; null for another backend.
const cuda::Stream* compute_stream(const Backend& backend);

}  // namespace gptrain
