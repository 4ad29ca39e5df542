#include "chat/template_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <system_error>

#include "chat/template_strings.h"

namespace gptrain {
namespace {

using Kind = TemplateValue::Kind;

/// Python's repr of a number: its shortest digits, with an exponent below 1e-4 and from 1e16 on.
std::string real_text(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    char digits[64];
    const double size = std::abs(value);
    const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
    const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
    const auto end = std::to_chars(digits, digits + sizeof digits, value, format).ptr;
    std::string text(digits, end);
    if (plain && text.find('.') == text.npos) text += ".0";
    return text;
}

std::string repr(TemplateRun& run, const TemplateValue& value);

/// Python's repr of a list, a tuple or a dict.
std::string items_text(TemplateRun& run, const TemplateValue& value) {
    const TemplateItems& items = *value.items;
    if (items.form == TemplateItems::Form::lazy)
        run.fail("printing a list that a filter makes is not supported; write '| list' behind it");
    const bool tuple = items.form == TemplateItems::Form::tuple;
    const bool dict = value.is(Kind::dict);
    std::string out(1, dict ? '{' : (tuple ? '(' : '['));
    for (std::size_t i = 0; i < items.values.size(); ++i) {
        if (i > 0) out += ", ";
        if (dict) out += repr(run, items.keys[i]) + ": ";
        const std::string element = repr(run, items.values[i]);
        run.count_bytes(element.size());
        out += element;
    }
    if (tuple && items.values.size() == 1) out += ',';
    return out + (dict ? '}' : (tuple ? ')' : ']'));
}

std::string repr(TemplateRun& run, const TemplateValue& value) {
    run.count(1);
    if (value.is(Kind::undefined)) return "Undefined";
    if (!value.is_string()) return printed(run, value);
    run.count_bytes(value.text->size());
    return quoted_text(value.string());
}

/// Writes one value as JSON.
class JsonWriter {
public:
    JsonWriter(TemplateRun& run, const JsonStyle& style) : run_(run), style_(style) {}

    void write(const TemplateValue& value, std::size_t depth) {
        run_.count(1);
        switch (value.kind) {
            case Kind::none: out_ += "null"; return;
            case Kind::boolean: out_ += value.number != 0 ? "true" : "false"; return;
            case Kind::integer: out_ += text(value.number); return;
            case Kind::real: out_ += real_json(value.real); return;
            case Kind::string: write_string(value.string()); return;
            case Kind::list:
            case Kind::dict: break;
            default: run_.fail("tojson of ", kind_name(value), " is not supported");
        }
        if (value.items->form == TemplateItems::Form::lazy)
            run_.fail("tojson of a list that a filter makes; write '| list' behind it");
        write_items(value, depth);
    }

    std::string take() { return std::move(out_); }

private:
    static std::string real_json(double value) {
        if (std::isnan(value)) return "NaN";
        if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
        return real_text(value);
    }

    void write_string(std::string_view string) {
        run_.count_bytes(string.size());
        out_ += Json(string).dump(-1, ' ', style_.ascii);
    }

    /// Keys are texts in JSON.
    void write_key(const TemplateValue& key) {
        if (key.is_string()) return write_string(key.string());
        out_ += '"';
        write(key, 0);
        out_ += '"';
    }

    void write_items(const TemplateValue& value, std::size_t depth) {
        const TemplateItems& items = *value.items;
        const bool dict = value.is(Kind::dict);
        out_ += dict ? '{' : '[';
        bool first = true;
        for (const std::size_t i : order(items)) {
            if (!first) out_ += style_.between;
            first = false;
            begin_line(depth + 1);
            if (dict) {
                write_key(items.keys[i]);
                out_ += style_.after_key;
            }
            write(items.values[i], depth + 1);
        }
        if (!first) begin_line(depth);
        out_ += dict ? '}' : ']';
    }

    std::vector<std::size_t> order(const TemplateItems& items) const {
        std::vector<std::size_t> indices(items.values.size());
        std::iota(indices.begin(), indices.end(), std::size_t{0});
        if (style_.sorted && !items.keys.empty()) {
            std::sort(indices.begin(), indices.end(), [&](std::size_t a, std::size_t b) {
                return order_of(run_, items.keys[a], items.keys[b]) < 0;
            });
        }
        return indices;
    }

    void begin_line(std::size_t depth) {
        if (!style_.indented) return;
        run_.count_bytes(depth * style_.indent.size());
        out_ += '\n';
        for (std::size_t i = 0; i < depth; ++i)
            out_ += style_.indent;
    }

    TemplateRun& run_;
    const JsonStyle& style_;
    std::string out_;
};

}  // namespace

std::string printed(TemplateRun& run, const TemplateValue& value) {
    switch (value.kind) {
        case Kind::undefined:
            if (run.strict) run.fail("'", *value.text, "' is undefined");
            return "";
        case Kind::none: return "None";
        case Kind::boolean: return value.number != 0 ? "True" : "False";
        case Kind::integer: return text(value.number);
        case Kind::real: return real_text(value.real);
        case Kind::string: return std::string(value.string());
        case Kind::list:
        case Kind::dict: return items_text(run, value);
        default: run.fail("printing ", kind_name(value), " is not supported");
    }
}

std::string json_of(TemplateRun& run, const TemplateValue& value, const JsonStyle& style) {
    JsonWriter writer(run, style);
    writer.write(value, 0);
    return writer.take();
}

}  // namespace gptrain
