#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "spec/run_spec.h"
#include "spec/spec_keys.h"
#include "spec/yaml_tree.h"

namespace gptrain {
namespace {

std::string formatted(std::int64_t value) {
    return text(value);
}
std::string formatted(std::uint64_t value) {
    return text(value);
}
/// Always with a decimal point: YAML 1.1 requires one in a number with an exponent.
std::string formatted(double value) {
    std::string digits = text(value);
    const std::size_t exponent = digits.find('e');
    if (exponent != std::string::npos && digits.find('.') == std::string::npos) {
        digits.insert(exponent, ".0");
    }
    return digits;
}
std::string formatted(bool value) {
    return text(value);
}
std::string formatted(Enumeration auto value) {
    return std::string(name_of(value));
}

std::string formatted(const std::string& value) {
    return word_or_quotes(value);
}

std::string formatted(const std::filesystem::path& value) {
    return formatted(value.string());
}

std::string formatted(const TaskName& value) {
    return formatted(value.text);
}

std::string formatted(const TimeLimit& value) {
    return value.job_end ? "auto" : text(value.seconds);
}

std::string joined(const std::vector<std::string>& parts) {
    std::string out;
    for (const std::string& part : parts)
        out += text(out.empty() ? "" : ", ", part);
    return out;
}

/// A visitor that writes the keys of a section as `key: value`.
struct KeyWriter {
    std::vector<std::string> entries;

    template <class T>
    void value(std::string_view key, T& field, const auto&...);
    void required(std::string_view key, auto& field, const auto&...) { value(key, field); }
    void open(std::string_view key, auto& field, std::string_view word, const auto&...) {
        if (with_value(field, [&](auto& given) { value(key, given); })) return;
        entries.push_back(text(key, ": ", word));
    }
};

template <class T>
std::string formatted_any(T& field) {
    if constexpr (Section<T>) {
        KeyWriter keys;
        visit_keys(keys, field);
        return text("{", joined(keys.entries), "}");
    } else if constexpr (requires { formatted(field); }) {
        return formatted(field);
    } else {
        std::vector<std::string> items;
        for (auto& item : field)
            items.push_back(formatted_any(item));
        return text("[", joined(items), "]");
    }
}

template <class T>
void KeyWriter::value(std::string_view key, T& field, const auto&...) {
    entries.push_back(text(key, ": ", formatted_any(field)));
}

/// A visitor of the whole spec. A section is a block with one line per key. Sections inside a
/// section, and optional sections, are written on their key's line.
struct SpecWriter {
    std::string out;

    template <class T>
    void value(std::string_view key, T& field, const auto&...) {
        if constexpr (Section<T>) {
            KeyWriter keys;
            visit_keys(keys, field);
            out += text(key, ":\n");
            for (const std::string& entry : keys.entries)
                out += text("  ", entry, "\n");
        } else {
            out += text(key, ": ", formatted_any(field), "\n");
        }
    }
    void required(std::string_view key, auto& field, const auto&...) { value(key, field); }
    void open(std::string_view key, auto& field, std::string_view word, const auto&...) {
        std::string written(word);
        with_value(field, [&](auto& given) { written = formatted_any(given); });
        out += text(key, ": ", written, "\n");
    }
};

}  // namespace

std::string to_yaml(const RunSpec& spec) {
    RunSpec fields = spec;  // visitors take mutable fields
    SpecWriter writer;
    visit_keys(writer, fields);
    return writer.out;
}

}  // namespace gptrain
