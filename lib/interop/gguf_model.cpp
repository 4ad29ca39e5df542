#include "interop/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "base/error.h"
#include "base/rope.h"

namespace gptrain {
namespace {

std::string_view architecture_of(HfClass hf_class) {
    return names_of(is_llama(hf_class) ? HfClass::llama : hf_class).model_type;
}

[[noreturn]] void no_architecture(HfClass hf_class, const auto&... what) {
    fail(ExitCode::usage, "the architecture ", architecture_of(hf_class), " of llama.cpp has no ",
         what...);
}

std::string key_of(HfClass hf_class, std::string_view name) {
    return text(architecture_of(hf_class), ".", name);
}

std::string_view eps_name(const ModelShape& model) {
    const bool rms = model.normalization == Normalization::rmsnorm;
    return rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
}

/// The factor to store: llama.cpp multiplies it by its default factor.
double attention_factor(const RopeScaling& yarn) {
    return *yarn.attention_factor / (0.1 * std::log(yarn.factor) + 1);
}

class ModelKeys {
public:
    ModelKeys(const ModelShape& model, GgufMetadata& to)
        : model_(model), hf_class_(hf_class_of(model)), to_(to) {}

    void add() {
        to_.add_size(key("vocab_size"), model_.vocab);
        to_.add_size(key("context_length"), gguf_context(model_));
        to_.add_size(key("embedding_length"), model_.hidden);
        to_.add_size(key("block_count"), model_.layers);
        to_.add_size(key("feed_forward_length"), model_.ffn);
        to_.add_size(key("attention.head_count"), model_.heads);
        to_.add_size(key("attention.head_count_kv"), model_.groups);
        to_.add_size(key("attention.key_length"), model_.head_dim);
        to_.add_size(key("attention.value_length"), model_.head_dim);
        to_.add_number(key(eps_name(model_)), model_.norm_eps);
        if (model_.position_embedding == PositionEmbedding::rope) add_rope();
    }

private:
    std::string key(std::string_view name) const { return key_of(hf_class_, name); }

    void add_rope() {
        to_.add_size(key("rope.dimension_count"), model_.head_dim);
        to_.add_number(key("rope.freq_base"), model_.rope_theta);
        if (hf_class_ == HfClass::stablelm) to_.add_flag(key("use_parallel_residual"), false);
        if (!model_.rope_scaling || model_.rope_scaling->kind == RopeScalingKind::llama3) return;
        const RopeScaling& scaling = *model_.rope_scaling;
        to_.add_text(key("rope.scaling.type"), name_of(scaling.kind));
        to_.add_number(key("rope.scaling.factor"), scaling.factor);
        if (scaling.kind == RopeScalingKind::linear) return;
        to_.add_size(key("rope.scaling.original_context_length"),
                     scaling.original_max_position_embeddings);
        if (scaling.attention_factor)
            to_.add_number(key("rope.scaling.attn_factor"), attention_factor(scaling));
    }

    const ModelShape& model_;
    HfClass hf_class_;
    GgufMetadata& to_;
};

/// Compares each setting of a written file with the model's.
class ReadKeys {
public:
    ReadKeys(const GgufFile& file, const ModelShape& model)
        : file_(file), model_(model), hf_class_(hf_class_of(model)) {}

    void check() const {
        const std::string_view architecture = "general.architecture";
        check_same(architecture, architecture_of(hf_class_), file_.find_text(architecture));
        check_size("vocab_size", model_.vocab);
        check_size("context_length", gguf_context(model_));
        check_size("embedding_length", model_.hidden);
        check_size("block_count", model_.layers);
        check_size("feed_forward_length", model_.ffn);
        check_size("attention.head_count", model_.heads);
        check_size("attention.head_count_kv", model_.groups);
        check_size("attention.key_length", model_.head_dim);
        check_size("attention.value_length", model_.head_dim);
        check_number(eps_name(model_), model_.norm_eps);
        if (model_.position_embedding == PositionEmbedding::rope) check_rope();
    }

private:
    static void check_same(std::string_view key, const auto& written, const auto& read) {
        GPTRAIN_CHECK(read, key, " was not read back");
        GPTRAIN_CHECK(*read == written, key, " ", written, " was read back as ", *read);
    }
    void check_size(std::string_view name, std::int64_t written) const {
        const std::string key = key_of(hf_class_, name);
        check_same(key, written, file_.find_size(key));
    }
    void check_number(std::string_view name, double written) const {
        const std::string key = key_of(hf_class_, name);
        check_same(key, static_cast<float>(written), file_.find_number(key));
    }

    void check_rope() const {
        check_size("rope.dimension_count", model_.head_dim);
        check_number("rope.freq_base", model_.rope_theta);
        const std::string kind = key_of(hf_class_, "rope.scaling.type");
        if (!model_.rope_scaling || model_.rope_scaling->kind == RopeScalingKind::llama3) {
            GPTRAIN_CHECK(!file_.find_text(kind), kind, " was read back");
            return;
        }
        const RopeScaling& scaling = *model_.rope_scaling;
        check_same(kind, name_of(scaling.kind), file_.find_text(kind));
        check_number("rope.scaling.factor", scaling.factor);
        if (scaling.kind == RopeScalingKind::linear) return;
        check_size("rope.scaling.original_context_length",
                   scaling.original_max_position_embeddings);
        if (scaling.attention_factor)
            check_number("rope.scaling.attn_factor", attention_factor(scaling));
    }

    const GgufFile& file_;
    const ModelShape& model_;
    HfClass hf_class_;
};

}  // namespace

void check_gguf_model(const ModelShape& model) {
    const HfClass hf_class = hf_class_of(model);
    if (hf_class == HfClass::starcoder2 && model.heads * model.head_dim != model.hidden) {
        no_architecture(hf_class, "model.head_dim ", model.head_dim,
                        ": it needs model.hidden_size / model.num_attention_heads");
    }
    if (model.activation == Activation::gelu_erf) {
        no_architecture(hf_class,
                        "model.activation gelu_erf: its GELU is the tanh form; export "
                        "with --format hf");
    }
    if (!model.rope_scaling) return;
    const RopeScaling& scaling = *model.rope_scaling;
    if (scaling.kind == RopeScalingKind::llama3 && !is_llama(hf_class))
        no_architecture(hf_class, "model.rope_scaling of type llama3");
    const RopeScaling usual;
    if (scaling.kind == RopeScalingKind::yarn &&
        (scaling.beta_fast != usual.beta_fast || scaling.beta_slow != usual.beta_slow)) {
        no_architecture(hf_class, "model.rope_scaling with beta_fast ", scaling.beta_fast,
                        " and beta_slow ", scaling.beta_slow, ", only with ", usual.beta_fast,
                        " and ", usual.beta_slow);
    }
}

std::int64_t gguf_context(const ModelShape& model) {
    return has_windows(model) ? std::min(model.max_positions, *model.sliding_window)
                              : model.max_positions;
}

void add_gguf_model(const ModelShape& model, GgufMetadata& to) {
    to.add_text("general.architecture", architecture_of(hf_class_of(model)));
    ModelKeys(model, to).add();
}

void check_gguf_settings(const GgufFile& file, const ModelShape& model) {
    ReadKeys(file, model).check();
    const std::vector<float> factors = gguf_rope_factors(model);
    if (factors.empty()) return;
    GPTRAIN_CHECK(std::ranges::equal(file.tensor(gguf_rope_factors_name).bytes,
                                     std::as_bytes(std::span(factors))),
                  gguf_rope_factors_name, " was not read back as it was written");
}

std::vector<float> gguf_rope_factors(const ModelShape& model) {
    std::vector<float> factors;
    if (!model.rope_scaling || model.rope_scaling->kind != RopeScalingKind::llama3) return factors;
    const RopeAngles plain(model.rope_theta, model.head_dim, std::nullopt);
    const RopeAngles scaled(model.rope_theta, model.head_dim, model.rope_scaling);
    for (std::int64_t i = 0; i < model.head_dim / 2; ++i)
        factors.push_back(static_cast<float>(plain.frequency(i) / scaled.frequency(i)));
    return factors;
}

}  // namespace gptrain
