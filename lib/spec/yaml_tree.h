// The strict layer over yaml-cpp. Of YAML a run spec uses keys, values and lists; the rest
// (aliases, tags, directives, several documents) is refused where it stands, and so is what
// yaml-cpp lets through: duplicate keys, control characters, deep nesting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

/// Where something was written: line and column count from 1, the column in bytes. Line 0: not in
/// the file but in a `--set` option.
struct YamlPlace {
    int line = 0;
    int column = 0;
};

struct YamlMember;

/// One value as written, not yet interpreted.
struct YamlNode {
    enum class Kind { null, scalar, list, map };

    YamlNode();
    YamlNode(Kind what, YamlPlace where);

    Kind kind = Kind::null;
    YamlPlace place;                  ///< of a missing value (null): that of its key
    std::string scalar;               ///< UTF-8
    bool quoted = false;              ///< the scalar stands in quotes (or is a block of text)
    std::vector<YamlNode> items;      ///< of a list
    std::vector<YamlMember> members;  ///< of a map, in order, keys unique

    YamlNode* find(std::string_view key);
    const YamlNode* find(std::string_view key) const;
};

struct YamlMember {
    std::string key;
    YamlPlace place;
    YamlNode value;
};

/// What messages call the text: the file's name, or the path of a `--set` option.
struct YamlSource {
    std::string name;
    bool setting = false;
};

/// Parses one document. Every fault is an Error (usage): `name:line:column: ...` or `--set name:
/// ...`. An empty document is a null node.
YamlNode parse_yaml(std::string_view yaml, const YamlSource& source);

/// Whether the text is UTF-8 without control characters.
bool is_one_line(std::string_view words);

/// Text for a message, on one line and cut short.
std::string shown(std::string_view words);

/// The value for a message: `12`, `"12" in quotes`, `a list of 3`.
std::string shown(const YamlNode& node);

}  // namespace gptrain
