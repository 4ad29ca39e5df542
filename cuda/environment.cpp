#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "cuda/cuda_backend.h"

namespace gptrain {
namespace {

std::string_view variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

CudaAttention wanted_attention() {
    const std::string_view word = variable("GPTRAIN_CUDA_ATTENTION");
    if (word.empty() || word == "auto") return CudaAttention::automatic;
    if (word == "portable") return CudaAttention::portable;
    if (word == "sm90") return CudaAttention::sm90;
    fail(ExitCode::usage, "GPTRAIN_CUDA_ATTENTION=", word, ": must be auto, portable or sm90");
}

}  // namespace

CudaOptions options_of_environment() {
    return {.graphs = variable("GPTRAIN_CUDA_GRAPHS") == "1", .attention = wanted_attention()};
}

}  // namespace gptrain
