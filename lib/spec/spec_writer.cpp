#include <string>
#include <string_view>

#include "base/text.h"
#include "spec/spec_json.h"
#include "spec/spec_keys.h"
#include "spec/yaml_tree.h"

namespace gptrain {
namespace {

/// Always with a decimal point: YAML 1.1 requires one in a number with an exponent.
std::string formatted(double value) {
    std::string digits = text(value);
    const std::size_t exponent = digits.find('e');
    if (exponent != std::string::npos && digits.find('.') == std::string::npos) {
        digits.insert(exponent, ".0");
    }
    return digits;
}

}  // namespace

std::string yaml_line(const Json& value) {
    if (value.is_string()) return word_or_quotes(value.get<std::string>());
    if (value.is_number_float()) return formatted(value.get<double>());
    if (!value.is_structured()) return to_line(value);
    std::string out;
    for (const auto& [key, item] : value.items()) {
        out += text(out.empty() ? "" : ", ", value.is_object() ? key + ": " : "", yaml_line(item));
    }
    return value.is_object() ? text("{", out, "}") : text("[", out, "]");
}

namespace {

/// A visitor of the whole spec, which writes the values of its keys. A section is a block with one
/// line per key. Sections inside a section, and optional sections, are written on their key's line.
struct SpecWriter {
    const Json& values;
    std::string out = {};

    template <class T>
    void value(std::string_view key, T&, const auto&...) {
        if constexpr (Section<T>) {
            out += text(key, ":\n");
            for (const auto& [name, inner] : values[std::string(key)].items())
                out += text("  ", name, ": ", yaml_line(inner), "\n");
        } else {
            open(key);
        }
    }
    void required(std::string_view key, auto& field, const auto&...) { value(key, field); }
    void open(std::string_view key, const auto&...) {
        out += text(key, ": ", yaml_line(values[std::string(key)]), "\n");
    }
};

}  // namespace

std::string to_yaml(const RunSpec& spec) {
    RunSpec fields = spec;  // visitors take mutable fields
    const Json values = to_json(spec);
    SpecWriter writer = {values};
    visit_keys(writer, fields);
    return writer.out;
}

}  // namespace gptrain
