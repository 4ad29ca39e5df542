#include "cuda/environment.h"

#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

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

std::int32_t gemm_multiprocessors() {
    const std::string_view word = variable("GPTRAIN_GEMM_SMS");
    if (word.empty()) return 0;
    const auto number = parse_int(word);
    constexpr std::int64_t most = 1024;
    if (number && *number > 0 && *number <= most) return static_cast<std::int32_t>(*number);
    fail(ExitCode::usage, "GPTRAIN_GEMM_SMS=", word, ": must be a number from 1 to ", most);
}

}  // namespace

Options options_from_environment() {
    return {.tune_sm90_gemms = variable("GPTRAIN_SM90_GEMMS") == "1",
            .graphs = variable("GPTRAIN_CUDA_GRAPHS") == "1",
            .attention = attention_choice(),
            .gemm_multiprocessors = gemm_multiprocessors()};
}

}  // namespace gptrain::cuda
