#include "metrics/tensorboard_settings.h"

#include <string_view>

#include "base/text.h"
#include "tokenizer/protobuf_wire.h"

namespace gptrain {
namespace {

/// Field numbers of the protobuf messages.
namespace summary_value {
constexpr int tag = 1, tensor = 8, metadata = 9;
}
namespace summary_metadata {
constexpr int plugin_data = 1, plugin_name = 1, content = 2;
}
namespace hparams_plugin_data {
constexpr int session_start_info = 3;
}
namespace session_start_info {
constexpr int hparams = 1, start_time_secs = 5, key = 1, value = 2;
}
namespace struct_value {
constexpr int number = 2, string = 3, boolean = 4;
}
namespace tensor {
constexpr int dtype = 1, shape = 2, dim = 2, float32 = 1;
}

/// A google.protobuf.Value message.
std::string value_of(const Json& setting) {
    std::string out;
    if (setting.is_boolean()) {
        append_varint_field(out, struct_value::boolean, setting.get<bool>() ? 1 : 0);
    } else if (setting.is_number()) {
        append_double_field(out, struct_value::number, setting.get<double>());
    } else {
        append_bytes_field(out, struct_value::string,
                           setting.is_string() ? setting.get<std::string>() : to_line(setting));
    }
    return out;
}

void append_settings(std::string& info, const Json& settings, std::string_view prefix) {
    for (const auto& [key, value] : settings.items()) {
        const std::string name = text(prefix, key);
        if (value.is_object()) {
            append_settings(info, value, name + ".");
            continue;
        }
        std::string entry;
        append_bytes_field(entry, session_start_info::key, name);
        append_bytes_field(entry, session_start_info::value, value_of(value));
        append_bytes_field(info, session_start_info::hparams, entry);
    }
}

/// A tensor without elements, because the plugin requires a tensor here.
std::string empty_tensor() {
    std::string shape;
    append_bytes_field(shape, tensor::dim, "");
    std::string out;
    append_varint_field(out, tensor::dtype, tensor::float32);
    append_bytes_field(out, tensor::shape, shape);
    return out;
}

}  // namespace

std::string settings_value(const Json& settings, double start) {
    std::string info;
    append_settings(info, settings, "");
    append_double_field(info, session_start_info::start_time_secs, start);

    std::string content;
    append_bytes_field(content, hparams_plugin_data::session_start_info, info);
    std::string plugin;
    append_bytes_field(plugin, summary_metadata::plugin_name, "hparams");
    append_bytes_field(plugin, summary_metadata::content, content);
    std::string metadata;
    append_bytes_field(metadata, summary_metadata::plugin_data, plugin);

    std::string out;
    append_bytes_field(out, summary_value::tag, "_hparams_/session_start_info");
    append_bytes_field(out, summary_value::tensor, empty_tensor());
    append_bytes_field(out, summary_value::metadata, metadata);
    return out;
}

}  // namespace gptrain
