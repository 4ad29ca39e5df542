#include "interop/hf_windows.h"

#include <algorithm>

#include "interop/hf_classes.h"

namespace gptrain {

Json window_of(const ModelShape& model) {
    return has_windows(model) ? Json(*model.sliding_window) : Json(nullptr);
}

void read_window_size(const HfMembers& config, ModelSpec& model,
                      std::optional<std::int64_t> otherwise) {
    if (config.has(window_key))
        model.sliding_window = config.size(window_key);
    else if (!config.json().contains(window_key))
        model.sliding_window = otherwise;
}

void read_layer_types(const HfMembers& config, ModelSpec& model) {
    const Json& types = JsonReader(config.json(), config.source()).array(types_key);
    if (std::ssize(types) != model.num_layers)
        config.refuse(types_key, "it needs an entry for each layer");
    for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
        const Json& type = types[static_cast<std::size_t>(layer)];
        if (type == "full_attention")
            model.full_attention_layers.push_back(layer);
        else if (type != "sliding_attention")
            config.refuse(types_key, "gptrain has full_attention and sliding_attention");
    }
}

void drop_unused_window(ModelSpec& model) {
    if (std::ssize(model.full_attention_layers) < model.num_layers) return;
    model.sliding_window.reset();
    model.full_attention_layers.clear();
}

void read_pattern(const HfMembers& config, ModelSpec& model, std::string_view key,
                  std::int64_t otherwise) {
    const std::int64_t every = key.empty() ? otherwise : config.size(key, otherwise);
    if (config.has(types_key)) {
        read_layer_types(config, model);
    } else {
        for (std::int64_t layer = every - 1; layer < model.num_layers; layer += every)
            model.full_attention_layers.push_back(layer);
    }
    // Without a window the layers are alike.
    if (!model.sliding_window) model.full_attention_layers.clear();
    drop_unused_window(model);
}

Json layer_types(const ModelShape& model) {
    Json types = Json::array();
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        types.push_back(model.has_window(layer) ? "sliding_attention" : "full_attention");
    return types;
}

void write_layer_types(const ModelShape& model, Json& config) {
    config["sliding_window"] = window_of(model);
    config["layer_types"] = layer_types(model);
}

void read_layer_windows(const HfMembers& config, ModelSpec& model) {
    if (!config.flag("use_sliding_window", false)) return;
    read_window_size(config, model, 4096);
    if (!model.sliding_window) return;
    if (config.has(types_key)) return read_layer_types(config, model);
    const std::int64_t first =
        config.has("max_window_layers")
            ? JsonReader(config.json(), config.source()).integer("max_window_layers")
            : 28;
    for (std::int64_t layer = 0; layer < std::min(first, model.num_layers); ++layer)
        model.full_attention_layers.push_back(layer);
}

std::int64_t first_windowed(const ModelShape& model) {
    std::int64_t first = model.layers;
    while (first > 0 && model.has_window(first - 1))
        --first;
    return first;
}

}  // namespace gptrain
