// User options of the CUDA backend.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace gptrain::cuda {

/// Which kernels compute attention.
enum class AttentionChoice {
    automatic,  ///< the fastest kernels for the device that pass their check
    portable,   ///< the kernels for every device
    sm90,       ///< the kernels for compute capability 9.0; an error on other devices
};

struct Options {
    /// If true, Backend::tune may choose GEMM algorithms by timing; otherwise the library's
    /// heuristic chooses.
    bool tune_gemms = false;
    /// If true, tuning also tries our GEMM kernel for sm_90a on a GPU of compute capability 9.0. A
    /// GEMM that a tuning table gives to it uses it in any case.
    bool tune_sm90_gemms = false;
    /// Stores tuned algorithms for later runs; empty: not stored.
    std::filesystem::path tuning_file = {};
    /// `replay` captures its work in a CUDA graph on the second call and launches the graph from
    /// then on.
    bool graphs = false;
    AttentionChoice attention = AttentionChoice::automatic;
    /// Compares the sm_90a attention kernels with the portable ones on a device and describes what
    /// is wrong with them; empty if they agree. Kernels with a fault may hang or end the process,
    /// so this belongs in another one. If not set, make_backend compares them itself.
    std::function<std::string(int device)> check_attention = {};
    /// If false, the library computes the GELU after a GEMM where it can: faster, but it reads the
    /// sums before they are rounded, so recomputing gives different bits.
    bool deterministic = true;
    /// GEMMs that are issued while messages are in flight are chosen for this many multiprocessors,
    /// since messages hold the others; 0: all are.
    std::int32_t gemm_multiprocessors = 0;
};

/// GPTRAIN_CUDA_GRAPHS=1 sets `graphs`, GPTRAIN_SM90_GEMMS=1 `tune_sm90_gemms`,
/// GPTRAIN_CUDA_ATTENTION=auto|portable|sm90 `attention` and GPTRAIN_GEMM_SMS=N
/// `gemm_multiprocessors`. Throws Error (usage) for any other value of the last two.
Options options_from_environment();

}  // namespace gptrain::cuda
