// NVIDIA's libraries that are opened at run time, so that the program starts where they are not.
// This file and those that include it are built against their headers; nothing links them.
#pragma once

#include <cublasLt.h>
#include <filesystem>
#include <nccl.h>
#include <string>
#include <string_view>
#include <vector>

namespace gptrain::cuda {

/// cuBLASLt's functions, by the names in its header without the prefix.
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

/// NCCL's functions, likewise.
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

/// Opens the library, which stays open. One that is missing, or of another major version than the
/// headers, is an Error (usage) that lists the places tried.
CublasLt open_cublas_lt();
Nccl open_nccl();

/// Folders in which libraries are looked for beside the loader's own path, in this order:
/// GPTRAIN_CUDA_LIBS (one or more, ':' between), the CUDA toolkit, and `nvidia/*/lib` among the
/// packages of the `python3` on PATH.
struct LibraryPlaces {
    std::vector<std::filesystem::path> asked;    ///< tried before the loader's path
    std::vector<std::filesystem::path> guessed;  ///< tried after it
};
LibraryPlaces library_places();

/// dlopen of a file of this name (as the loader knows it) from the places; `purpose` is for the
/// message.
void* open_library(const std::string& name, std::string_view purpose, const LibraryPlaces& places);

}  // namespace gptrain::cuda
