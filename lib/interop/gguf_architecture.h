// The architectures of llama.cpp, by which a GGUF file says how its model is computed.
#pragma once

#include <string_view>

#include "interop/hf_classes.h"

namespace gptrain {

/// llama.cpp's name of the architecture that computes what a class does; empty if there is none.
inline std::string_view gguf_architecture_of(HfClass hf_class) {
    if (is_llama(hf_class)) return "llama";
    switch (hf_class) {
        case HfClass::qwen2_moe: return "qwen2moe";
        case HfClass::qwen3_moe: return "qwen3moe";
        case HfClass::glm4_moe: return "glm4moe";
        case HfClass::gpt_oss: return "gpt-oss";
        case HfClass::phi: return "phi2";
        case HfClass::gpt_neox: return "gptneox";
        case HfClass::gpt_bigcode: return "starcoder";
        case HfClass::cohere: return "command-r";
        case HfClass::gptj:
        case HfClass::opt:
        case HfClass::glm: return "";
        case HfClass::gemma3: return "gemma3";
        default: return family_of(hf_class).model_type;
    }
}

/// Ends the attempt to write a model that the architecture of its class cannot express.
[[noreturn]] void no_gguf_model(HfClass hf_class, const auto&... what) {
    fail(ExitCode::usage, "the architecture ", gguf_architecture_of(hf_class),
         " of llama.cpp has no ", what...);
}

}  // namespace gptrain
