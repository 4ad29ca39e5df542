// A strict layer over yaml-cpp. A run spec uses only YAML's keys, values and lists. Everything else
// (aliases, tags, directives, several documents) is rejected with its location, and so is what
// yaml-cpp lets through: duplicate keys, control characters, deep nesting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

/// A location: line and column, counted from 1, the column in bytes. Line 0 means a `--set` option
/// instead of the file.
struct YamlLocation {
    int line = 0;
    int column = 0;
};

struct YamlMember;

/// A value as written, not yet interpreted.
struct YamlNode {
    enum class Kind { null, scalar, list, map };

    YamlNode();
    YamlNode(Kind what, YamlLocation where);

    Kind kind = Kind::null;
    YamlLocation location;            ///< of a missing value (null): its key's location
    std::string scalar;               ///< UTF-8
    bool quoted = false;              ///< the scalar is in quotes, or is a block of text
    std::vector<YamlNode> items;      ///< of a list
    std::vector<YamlMember> members;  ///< of a map, in order, keys unique

    YamlNode* find(std::string_view key);
    const YamlNode* find(std::string_view key) const;
};

struct YamlMember {
    std::string key;
    YamlLocation location;
    YamlNode value;
};

/// The text's name in messages: the file, or the path of a `--set` option.
struct YamlSource {
    std::string name;
    bool setting = false;
};

/// Parses one document. Every mistake is an Error (usage): `name:line:column: ...` or `--set name:
/// ...`. An empty document gives a null node.
YamlNode parse_yaml(std::string_view yaml, const YamlSource& source);

/// The document's text: a section of the document has one line per key, and what is inside a value
/// stands on its key's line. `parse_yaml` of it returns the same values.
std::string to_yaml(const YamlNode& root);

/// True if no character of the text needs quoting in YAML.
bool has_plain_characters(std::string_view text);

/// As a value anywhere in YAML: in quotes, unless it is a plain word.
std::string word_or_quotes(const std::string& text);

/// The text in double quotes.
std::string in_quotes(std::string_view text);

/// True if the text is UTF-8 without control characters.
bool is_one_line(std::string_view text);

/// Text for a message, on one line and shortened.
std::string display_text(std::string_view text);

/// The value for a message: `12`, `"12" in quotes`, `a list of 3`.
std::string display_text(const YamlNode& node);

}  // namespace gptrain
