// NVIDIA's libraries, loaded at run time so that the program also starts without them. This file
// and those that include it need the libraries' headers; nothing links against the libraries.
#pragma once

#include <cublasLt.h>
#include <filesystem>
#include <nccl.h>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace gptrain::cuda {

/// cuBLASLt's functions, named as in its header without the prefix.
struct CublasLt {
    decltype(&cublasLtGetVersion) get_version;
    decltype(&cublasLtGetStatusString) status_string;
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtDestroy) destroy;
    decltype(&cublasLtMatmulDescCreate) desc_create;
    decltype(&cublasLtMatmulDescDestroy) desc_destroy;
    decltype(&cublasLtMatmulDescSetAttribute) desc_set;
    decltype(&cublasLtMatrixLayoutCreate) layout_create;
    decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
    decltype(&cublasLtMatmulPreferenceCreate) preference_create;
    decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
    decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
    decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
    decltype(&cublasLtMatmulAlgoCheck) check;
    decltype(&cublasLtMatmul) matmul;
};

/// NCCL's functions, named in the same way.
struct Nccl {
    decltype(&ncclGetVersion) get_version;
    decltype(&ncclGetErrorString) error_string;
    decltype(&ncclGetLastError) last_error;
    decltype(&ncclGetUniqueId) get_unique_id;
    decltype(&ncclCommInitRankConfig) init_rank;
    decltype(&ncclCommFinalize) finalize;
    decltype(&ncclCommDestroy) destroy;
    decltype(&ncclCommAbort) abort;
    decltype(&ncclCommGetAsyncError) async_error;
    decltype(&ncclGroupStart) group_start;
    decltype(&ncclGroupEnd) group_end;
    decltype(&ncclAllReduce) all_reduce;
    decltype(&ncclReduceScatter) reduce_scatter;
    decltype(&ncclAllGather) all_gather;
    decltype(&ncclBroadcast) broadcast;
    decltype(&ncclSend) send;
    decltype(&ncclRecv) recv;
};

/// Loads the library, which stays loaded. Throws Error (usage) that lists the places searched if it
/// is missing or its major version differs from the headers'.
CublasLt open_cublas_lt();
/// The same; an NCCL that require_nccl or require_launch_order refuses is an Error too. `driver`:
/// as driver_version (probe.h) gives it.
Nccl open_nccl(int driver);

/// "2.30.7" from 23007, the form in which ncclGetVersion gives it.
inline std::string nccl_version_text(int version) {
    return text(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

/// Error (usage) for an NCCL before 2.26, which does not know NCCL_LAUNCH_ORDER_IMPLICIT: messages
/// of several communicators could wait for each other. `version`: as ncclGetVersion gives it.
void require_nccl(int version);

/// The CUDA version that an NCCL was built for, 12020 for 12.2: its file holds "NCCL version
/// 2.26.2+cuda12.2". Empty if it does not.
std::optional<int> cuda_of_nccl(std::string_view file);

/// Error (usage) if NCCL was built for CUDA before 12.3, or the driver is older than that. NCCL
/// then starts an operation only when the one before it has ended, on whichever communicator, so
/// the stages of a pipeline would wait for each other.
void require_launch_order(std::optional<int> nccl_cuda, int driver);

/// Folders to search for libraries in addition to the loader's own path, in this order:
/// GPTRAIN_CUDA_LIBS (one or more, separated by ':'), the CUDA toolkit, and `nvidia/*/lib` among
/// the packages of the `python3` on PATH.
struct LibraryPlaces {
    std::vector<std::filesystem::path> requested;      ///< searched before the loader's path
    std::vector<std::filesystem::path> default_paths;  ///< searched after it
};
LibraryPlaces library_places();

/// dlopen of the file `name`, searched for in `places`. `purpose` completes the error message.
void* open_library(const std::string& name, std::string_view purpose, const LibraryPlaces& places);

}  // namespace gptrain::cuda
