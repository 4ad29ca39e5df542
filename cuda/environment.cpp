#include "cuda/environment.h"

#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace gptrain::cuda {
namespace {

std::string_view variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

AttentionChoice attention_choice() {
    const std::string_view word = variable("GPTRAIN_CUDA_ATTENTION");
    if (word.empty() || word == "auto") return AttentionChoice::automatic;
    if (word == "portable") return AttentionChoice::portable;
    if (word == "sm90") return AttentionChoice::sm90;
    fail(ExitCode::usage, "GPTRAIN_CUDA_ATTENTION=", word, ": must be auto, portable or sm90");
}

}  // namespace

Options options_from_environment() {
    return {.graphs = variable("GPTRAIN_CUDA_GRAPHS") == "1", .attention = attention_choice()};
}

}  // namespace gptrain::cuda
