// What a user can ask of the CUDA backend.
#pragma once

#include <filesystem>

namespace gptrain::cuda {

/// Which kernels compute attention.
enum class AttentionChoice {
    automatic,  ///< the fastest that are known to run on the device
    portable,   ///< those for every device
    sm90,       ///< those for compute capability 9.0
};

struct Options {
    /// Algorithms of products can be chosen by timing (Backend::tune); else they are as the library
    /// advises.
    bool tune_products = false;
    /// Where these choices are kept and found again; empty: nowhere.
    std::filesystem::path tuning_file = {};
    /// `replay` records: the second time in a CUDA graph, which is issued from then on.
    bool graphs = false;
    AttentionChoice attention = AttentionChoice::automatic;
    /// Else the gelu behind a product is done by the library where it can: faster, but from sums
    /// before they are rounded, so that recomputing it gives other bits.
    bool deterministic = true;
};

/// GPTRAIN_CUDA_GRAPHS=1: `graphs`; GPTRAIN_CUDA_ATTENTION=auto|portable|sm90: `attention`, another
/// word is an Error (usage).
Options options_of_environment();

}  // namespace gptrain::cuda
