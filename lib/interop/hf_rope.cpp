#include "interop/hf_rope.h"

#include <cmath>
#include <utility>

namespace gptrain {
namespace {

constexpr std::string_view factor_key = "partial_rotary_factor";
constexpr std::string_view full_layers = "full_attention";
constexpr std::string_view window_layers = "sliding_attention";
/// The base in Gemma 3's layers with a window, and its key in transformers 4.
constexpr double gemma_window_theta = 10000.0;
constexpr std::string_view window_theta_key = "rope_local_base_freq";

HfMembers section(const HfMembers& config, std::string_view key) {
    return {config.json().at(std::string(key)), text(config.source(), ": '", key, "'")};
}

/// The settings of rotations in config.json: as in transformers rope_scaling, unless it is empty,
/// or else rope_parameters.
std::optional<HfMembers> rope_in(const HfMembers& config) {
    for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
        if (!config.has(key)) continue;
        const HfMembers rope = section(config, key);
        for (const auto& [member, value] : rope.json().items())
            if (value.is_object()) rope.refuse(member, "gptrain rotates alike in all layers");
        if (!rope.json().empty()) return rope;
    }
    return std::nullopt;
}

/// "rope_type", or as version 4 called it at first, "type".
std::string rope_type_in(const HfMembers& rope) {
    for (const std::string_view key : {"rope_type", "type"})
        if (rope.has(key)) return rope.word(key);
    return "default";
}

std::optional<RopeScaling> rope_scaling_in(const HfMembers& config, const HfMembers& rope,
                                           const ModelSpec& model) {
    const std::string type = rope_type_in(rope);
    if (type == "default") return std::nullopt;
    RopeScaling scaling;
    if (type == "linear") {
        scaling.kind = RopeScalingKind::linear;
    } else if (type == "llama3") {
        scaling.kind = RopeScalingKind::llama3;
    } else if (type == "yarn") {
        scaling.kind = RopeScalingKind::yarn;
        for (const std::string_view key : {"mscale", "mscale_all_dim"})
            rope.require_absent(key, text("yarn with ", key));
        rope.require("truncate", true, true);
    } else {
        rope.refuse(rope.has("rope_type") ? "rope_type" : "type",
                    "gptrain has default, linear, llama3 and yarn");
    }
    scaling.factor = rope.number("factor", 0);
    if (scaling.factor < 1)
        fail(ExitCode::bad_input, rope.source(), ": 'factor' is missing or below 1");
    if (scaling.kind != RopeScalingKind::linear) {
        constexpr std::string_view key = "original_max_position_embeddings";
        scaling.original_max_position_embeddings =
            (config.has(key) ? config : rope).size(key, *model.max_position_embeddings);
    }
    if (scaling.kind == RopeScalingKind::llama3) {
        scaling.low_freq_factor = rope.number("low_freq_factor", scaling.low_freq_factor);
        scaling.high_freq_factor = rope.number("high_freq_factor", scaling.high_freq_factor);
    }
    if (scaling.kind == RopeScalingKind::yarn) {
        scaling.beta_fast = rope.number("beta_fast", scaling.beta_fast);
        scaling.beta_slow = rope.number("beta_slow", scaling.beta_slow);
        if (rope.has("attention_factor"))
            scaling.attention_factor = rope.number("attention_factor", 1);
    }
    return scaling;
}

/// The share of a head that is rotated, from 0 to 1.
void read_share(const HfMembers& config, const std::optional<HfMembers>& rope,
                const HfFamily& family, ModelSpec& model) {
    const bool inside = rope && rope->has(factor_key);
    if (family.rotary.empty()) {
        if (inside) rope->require(factor_key, 1.0, 1.0);
        return;
    }
    const HfMembers& members = inside ? *rope : config;
    const std::string_view key = inside ? factor_key : family.rotary;
    model.rotary_fraction = members.number(key, family.default_rotary);
    if (model.rotary_fraction > 1) members.refuse(key, "it must be at most 1");
    // transformers rotates a whole number of dims, rounded down.
    const auto dims = static_cast<double>(
        static_cast<std::int64_t>(static_cast<double>(*model.head_dim) * model.rotary_fraction));
    if (dims >= 2) model.rotary_fraction = dims / static_cast<double>(*model.head_dim);
}

/// Gemma 3: the settings of one kind of layers.
HfMembers kind_in(const HfMembers& config, std::string_view kind, const Json& none) {
    constexpr std::string_view key = "rope_parameters";
    if (!config.has(key)) return {none, config.source()};
    const HfMembers rope = section(config, key);
    return rope.has(kind) ? section(rope, kind) : HfMembers(none, config.source());
}

void read_two_thetas(const HfMembers& config, const HfFamily& family, ModelSpec& model) {
    const Json none = Json::object();
    const HfMembers kind = kind_in(config, full_layers, none);
    // As version 4 has it, rope_scaling holds for the layers without a window.
    const HfMembers full =
        config.has("rope_scaling") ? section(config, "rope_scaling") : HfMembers(kind);
    const double theta_of_kind =
        kind.number("rope_theta", config.number(family.theta, family.default_theta));
    model.rope_theta = full.number("rope_theta", theta_of_kind);
    model.rope_scaling = rope_scaling_in(config, full, model);
    full.require(factor_key, 1.0, 1.0);
    if (!model.sliding_window) return;
    const HfMembers window = kind_in(config, window_layers, none);
    const double theta =
        window.number("rope_theta", config.number(window_theta_key, gemma_window_theta));
    const std::optional<RopeScaling> scaling = rope_scaling_in(config, window, model);
    window.require(factor_key, 1.0, 1.0);
    if (theta == model.rope_theta && scaling == model.rope_scaling) return;
    if (scaling) {
        window.refuse(window.has("rope_type") ? "rope_type" : "type",
                      "gptrain stretches the rotations of all layers alike, or only of those "
                      "without a window");
    }
    model.window_rope_theta = theta;
}

/// A share of which transformers, which rounds down, rotates the model's number of dims.
double written_share(const ModelShape& model) {
    const auto dims = static_cast<double>(model.rotary_dims());
    const auto head = static_cast<double>(model.head_dim);
    const double share = dims / head;
    return share * head < dims ? std::nextafter(share, 1.0) : share;
}

Json scaling_config(const std::optional<RopeScaling>& stretched) {
    if (!stretched) return {{"rope_type", "default"}};
    const RopeScaling& scaling = *stretched;
    Json rope = {{"rope_type", name_of(scaling.kind)}, {"factor", scaling.factor}};
    if (scaling.kind == RopeScalingKind::linear) return rope;
    rope["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
    if (scaling.kind == RopeScalingKind::llama3) {
        rope["low_freq_factor"] = scaling.low_freq_factor;
        rope["high_freq_factor"] = scaling.high_freq_factor;
    } else {
        rope["beta_fast"] = scaling.beta_fast;
        rope["beta_slow"] = scaling.beta_slow;
        if (scaling.attention_factor) rope["attention_factor"] = *scaling.attention_factor;
    }
    return rope;
}

void add_two_thetas(const ModelShape& model, const Json& full, Json& config) {
    Json window = full;
    if (model.window_rope_theta) {
        window = scaling_config(std::nullopt);
        window["rope_theta"] = *model.window_rope_theta;
    }
    config[std::string(window_theta_key)] = window.at("rope_theta");
    config["rope_parameters"] = {{full_layers, full}, {window_layers, window}};
}

}  // namespace

void read_hf_rope(const HfMembers& config, const HfFamily& family, ModelSpec& model) {
    if (family.two_thetas) return read_two_thetas(config, family, model);
    if (family.theta.empty()) {
        model.rope_theta = family.default_theta;
        return;
    }
    model.rope_theta = config.number(family.theta, family.default_theta);
    const std::optional<HfMembers> rope = rope_in(config);
    read_share(config, rope, family, model);
    if (!rope) return;
    model.rope_scaling = rope_scaling_in(config, *rope, model);
    model.rope_theta = rope->number("rope_theta", model.rope_theta);
}

void add_hf_rope(const ModelShape& model, const HfFamily& family, Json& config) {
    if (family.theta.empty()) return;
    Json rope = scaling_config(model.rope_scaling);
    config[std::string(family.theta)] = model.rope_theta;
    config["rope_scaling"] = model.rope_scaling ? rope : Json(nullptr);
    rope["rope_theta"] = model.rope_theta;
    if (family.two_thetas) return add_two_thetas(model, rope, config);
    if (!family.rotary.empty()) {
        config[std::string(family.rotary)] = written_share(model);
        rope[std::string(factor_key)] = written_share(model);
    }
    config["rope_parameters"] = std::move(rope);
}

}  // namespace gptrain
