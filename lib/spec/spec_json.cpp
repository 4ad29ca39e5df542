#include "spec/spec_json.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>

#include "spec/spec_keys.h"

namespace gptrain {
namespace {

/// A visitor that collects the keys of a section.
struct JsonWriter {
    Json object = Json::object();

    void value(std::string_view key, auto& field, const auto&...);
    void required(std::string_view key, auto& field, const auto&...) { value(key, field); }
    void open(std::string_view key, auto& field, std::string_view word, const auto&...) {
        if (with_value(field, [&](auto& given) { value(key, given); })) return;
        object[std::string(key)] = word;
    }
};

/// The form in which the layers were written.
Json layers_json(const ExpertLayers& layers) {
    if (!layers.list.empty()) return layers.list;
    if (layers == ExpertLayers()) return "all";
    return {{"first_dense", layers.first_dense}, {"every", layers.every}};
}

Json thetas_json(const RopeThetas& thetas) {
    if (!thetas.window) return thetas.full;
    return {{"full", thetas.full}, {"window", *thetas.window}};
}

template <class T>
Json json_of(T& field) {
    if constexpr (std::is_same_v<T, ExpertLayers>) {
        return layers_json(field);
    } else if constexpr (std::is_same_v<T, RopeThetas>) {
        return thetas_json(field);
    } else if constexpr (Section<T>) {
        JsonWriter keys;
        visit_keys(keys, field);
        return keys.object;
    } else if constexpr (std::is_same_v<T, TimeLimit>) {
        return field.job_end ? Json("auto") : Json(field.seconds);
    } else if constexpr (std::is_same_v<T, TaskName>) {
        return field.text;
    } else if constexpr (Enumeration<T>) {
        return name_of(field);
    } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
        return field.string();
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
        return field;
    } else {
        Json items = Json::array();
        for (auto& item : field)
            items.push_back(json_of(item));
        return items;
    }
}

void JsonWriter::value(std::string_view key, auto& field, const auto&...) {
    object[std::string(key)] = json_of(field);
}

}  // namespace

Json to_json(const RunSpec& spec) {
    RunSpec fields = spec;  // visitors take mutable fields
    return json_of(fields);
}

Json attention_settings(const ModelVariant& model) {
    RunSpec spec;
    static_cast<ModelVariant&>(spec.model) = model;
    if (!model.sliding_window) spec.model.full_attention_layers.clear();
    const Json all = to_json(spec).at("model");
    Json settings = Json::object();
    for (const char* key : {"rope_scaling", "sliding_window", "full_attention_layers"})
        settings[key] = all.at(key);
    return settings;
}

}  // namespace gptrain
