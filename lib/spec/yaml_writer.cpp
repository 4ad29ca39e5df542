#include "base/text.h"
#include "spec/yaml_tree.h"

namespace gptrain {
namespace {

/// On one line. Plain text that could mean something else inside of a list gets quotes.
std::string one_line(const YamlNode& node) {
    std::string out;
    switch (node.kind) {
        case YamlNode::Kind::null: return "";
        case YamlNode::Kind::scalar:
            return !node.quoted && has_plain_characters(node.scalar) ? node.scalar
                                                                     : in_quotes(node.scalar);
        case YamlNode::Kind::list:
            for (const YamlNode& item : node.items)
                out += text(out.empty() ? "" : ", ", one_line(item));
            return text("[", out, "]");
        case YamlNode::Kind::map:
            for (const YamlMember& member : node.members)
                out += text(out.empty() ? "" : ", ", member.key, ": ", one_line(member.value));
            return text("{", out, "}");
    }
    return out;
}

}  // namespace

bool has_plain_characters(std::string_view text) {
    constexpr std::string_view plain =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/.-+";
    return text.find_first_not_of(plain) == std::string_view::npos;
}

std::string word_or_quotes(const std::string& text) {
    const bool word = has_plain_characters(text) && text.find_first_of("-+.") != 0 &&
                      text != "null" && text != "Null" && text != "NULL" && !text.empty();
    return word ? text : in_quotes(text);
}

std::string in_quotes(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

std::string to_yaml(const YamlNode& root) {
    std::string out;
    for (const YamlMember& section : root.members) {
        const YamlNode& value = section.value;
        if (value.kind != YamlNode::Kind::map || value.members.empty()) {
            out += text(section.key, ": ", one_line(value), "\n");
            continue;
        }
        out += text(section.key, ":\n");
        for (const YamlMember& member : value.members)
            out += text("  ", member.key, ": ", one_line(member.value), "\n");
    }
    return out;
}

}  // namespace gptrain
