#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "spec/run_spec.h"
#include "spec/spec_keys.h"
#include "spec/yaml_tree.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_file_bytes = 1 << 20;
constexpr std::size_t max_setting_path = 200;

/// A value from the file or a setting, with what is needed to report an error about it.
struct SpecValue {
    const std::string& file;
    const YamlNode& node;
    std::string path;
    std::string_view open_word = {};  ///< valid instead of a value

    SpecValue inside(const YamlNode& child, std::string_view key,
                     std::string_view word = {}) const {
        return {file, child, path.empty() ? std::string(key) : text(path, ".", key), word};
    }

    template <class... Parts>
    [[noreturn]] void fail_here(const Parts&... parts) const {
        fail_at(node.location, path, parts...);
    }

    template <class... Parts>
    [[noreturn]] void fail_at(YamlLocation location, std::string_view key,
                              const Parts&... parts) const {
        const std::string where = location.line == 0
                                      ? text("--set ", key)
                                      : text(file, ":", location.line, ":", location.column,
                                             key.empty() ? "" : ": ", key);
        fail(ExitCode::usage, where, ": ", parts...);
    }

    /// `choices`: everything valid here besides the open word.
    [[noreturn]] void reject(std::vector<std::string_view> choices,
                             const std::string& hint = "") const {
        if (!open_word.empty()) choices.insert(choices.begin(), open_word);
        fail_here("found ", display_text(node), ", must be ", choice_of(choices), hint);
    }
    [[noreturn]] void reject(const std::string& choice, const std::string& hint = "") const {
        reject(std::vector<std::string_view>{choice}, hint);
    }
};

template <Section S>
std::vector<std::string_view> names_in() {
    KeyNames keys;
    S section;
    visit_keys(keys, section);
    return keys.names;
}

/// The paths of all keys of the spec, to find a key that was written in the wrong section.
struct KeyPaths {
    std::string prefix;
    std::vector<std::string> paths;

    void required(std::string_view key, const auto&...) { paths.push_back(text(prefix, key)); }
    void open(std::string_view key, const auto&...) { paths.push_back(text(prefix, key)); }
    template <class T>
    void value(std::string_view key, T& field, const auto&...) {
        paths.push_back(text(prefix, key));
        if constexpr (Section<T>) {
            const std::string before = std::exchange(prefix, text(prefix, key, "."));
            visit_keys(*this, field);
            prefix = before;
        }
    }
};

std::string advice_for(std::string_view key, const std::string& section,
                       const std::vector<std::string_view>& known) {
    const std::string prefix = section.empty() ? "" : text(section, ".");
    if (const auto near = nearest(key, known)) return text("nearest: ", prefix, *near);
    KeyPaths all;
    RunSpec spec;
    visit_keys(all, spec);
    for (const std::string& path : all.paths) {
        if (path.ends_with(text(".", key)) || path == key) return text("nearest: ", path);
    }
    return text("known here: ", choice_of(known));
}

/// A hint for a number that was not written as one.
std::string number_hint(const YamlNode& node, bool number) {
    if (node.kind != YamlNode::Kind::scalar || (number && !node.quoted)) return "";
    return node.quoted ? "; remove the quotes" : "; write plain decimal digits";
}

/// An integer in plain decimal digits. Leading zeros are rejected: YAML would read them as octal.
std::optional<std::int64_t> integer_in(const YamlNode& node) {
    const std::string_view word = node.scalar;
    const std::string_view digits = word.substr(word.starts_with('-') ? 1 : 0);
    const bool octal = digits.size() > 1 && digits.front() == '0';
    return node.quoted || octal ? std::nullopt : parse_int(word);
}

void read(const SpecValue& given, std::int64_t& value, const IntRange& range) {
    const auto number = integer_in(given.node);
    if (!number || !range.accepts(*number)) {
        given.reject(range.description(), number_hint(given.node, number.has_value()));
    }
    value = *number;
}

void read(const SpecValue& given, std::uint64_t& value, const IntRange& range) {
    std::int64_t number = 0;
    read(given, number, range);
    value = static_cast<std::uint64_t>(number);
}

void read(const SpecValue& given, double& value, const RealRange& range) {
    const auto number = parse_double(given.node.scalar);
    if (given.node.quoted || !number || !range.accepts(*number)) {
        given.reject(range.description(), number_hint(given.node, number.has_value()));
    }
    value = *number;
}

void read(const SpecValue& given, bool& value, Any) {
    const std::string& word = given.node.scalar;
    if (given.node.quoted || (word != "true" && word != "false")) {
        given.reject("true or false");
    }
    value = word == "true";
}

void read(const SpecValue& given, std::string& value, const auto& rule) {
    const YamlNode& node = given.node;
    if (node.kind != YamlNode::Kind::scalar || !is_one_line(node.scalar) ||
        !rule.accepts(node.scalar)) {
        given.reject(rule.description());
    }
    value = node.scalar;
}

struct PathText {
    bool accepts(const std::string& value) const { return !value.empty() && value.size() < 4096; }
    std::string description() const { return "a path in UTF-8, without control characters"; }
};

void read(const SpecValue& given, std::filesystem::path& value, Any) {
    std::string word;
    read(given, word, PathText{});
    std::error_code error;
    value = std::filesystem::absolute(word, error).lexically_normal();
    if (error) fail(ExitCode::io, "the current folder: ", error.message());
    if (!value.has_filename() && value.has_relative_path()) value = value.parent_path();
    // The path now includes the current folder's name and must be valid in YAML.
    if (!is_one_line(value.string())) given.reject(PathText{}.description());
}

/// A hint at the word that was meant: a synonym from other programs, or a similar spelling.
std::string nearest_hint(const SpecValue& given, std::vector<std::string_view> words) {
    if (!given.open_word.empty()) words.push_back(given.open_word);
    const auto known = [&](std::string_view word) {
        return std::find(words.begin(), words.end(), word) != words.end();
    };
    for (const auto& [foreign, word] : synonyms) {
        if (given.node.scalar == foreign && known(word)) return text("; nearest: ", word);
    }
    const auto near = nearest(given.node.scalar, words);
    return near ? text("; nearest: ", *near) : "";
}

template <Enumeration E, class Rule>
void read(const SpecValue& given, E& value, const Rule& rule) {
    std::vector<std::string_view> words;
    for (const auto& [candidate, word] : words_of(E{})) {
        if (!rule.accepts(candidate)) continue;
        if (given.node.scalar == word) {
            value = candidate;
            return;
        }
        words.push_back(word);
    }
    given.reject(words, nearest_hint(given, words));
}

void read(const SpecValue& given, TimeLimit& value, const IntRange& range) {
    value.job_end = given.node.scalar == "auto";
    if (value.job_end) return;
    const auto seconds = integer_in(given.node);
    if (!seconds || !range.accepts(*seconds)) {
        given.reject({"auto", text(range.description(), " (seconds)")},
                     number_hint(given.node, seconds.has_value()));
    }
    value.seconds = *seconds;
}

/// A hint on how to write a value of type T, or a list of them.
template <class T>
constexpr std::string_view form_hint = "";
template <>
constexpr std::string_view form_hint<DataSource> = "; write a source as {prefix: PATH}";

template <Section S>
void read(const SpecValue& given, S& section, Any);

template <class List, class Item>
void read(const SpecValue& given, List& list, const ListOf<Item>& rule) {
    const YamlNode& node = given.node;
    if (node.kind != YamlNode::Kind::list || !rule.accepts(node.items)) {
        given.reject(rule.description(), std::string(form_hint<typename List::value_type>));
    }
    if constexpr (requires { list.resize(node.items.size()); }) list.resize(node.items.size());
    for (std::size_t i = 0; i < node.items.size(); ++i) {
        read(given.inside(node.items[i], text(i)), list[i], rule.item);
    }
}

/// A visitor that fills a section from a map.
class SectionReader {
public:
    explicit SectionReader(const SpecValue& given) : given_(given) {}

    template <class T, class Rule = Any>
    void required(std::string_view key, T& field, const Rule& rule = {}) {
        if (given_.node.find(key) == nullptr) {
            given_.fail_at(given_.node.location, given_.inside(given_.node, key).path,
                           "missing key");
        }
        value(key, field, rule);
    }

    template <class T, class Rule = Any>
    void value(std::string_view key, T& field, const Rule& rule = {}) {
        if (const YamlNode* node = given_.node.find(key)) {
            read(given_.inside(*node, key), field, rule);
        } else if constexpr (Section<T>) {
            // Read an empty section, so that missing required keys are reported.
            const YamlNode empty(YamlNode::Kind::map, given_.node.location);
            read(given_.inside(empty, key), field, rule);
        }
    }

    template <class T, class Rule = Any>
    void open(std::string_view key, std::optional<T>& field, std::string_view word,
              const Rule& rule = {}) {
        const YamlNode* node = given_.node.find(key);
        if (node == nullptr || node->scalar == word) return;
        read(given_.inside(*node, key, word), field.emplace(), rule);
    }

private:
    const SpecValue& given_;
};

template <Section S>
void read(const SpecValue& given, S& section, Any) {
    if (given.node.kind != YamlNode::Kind::map) {
        given.reject("a section of `key: value`", std::string(form_hint<S>));
    }
    const std::vector<std::string_view> known = names_in<S>();
    for (const YamlMember& member : given.node.members) {
        if (std::find(known.begin(), known.end(), member.key) != known.end()) continue;
        const std::string path = given.inside(member.value, member.key).path;
        given.fail_at(member.location, path, "unknown key; ",
                      advice_for(member.key, given.path, known));
    }
    SectionReader reader(given);
    visit_keys(reader, section);
}

/// The value inside `node` named by one part of a setting's path: a key, added if missing, or the
/// index of a list item.
YamlNode& step_into(YamlNode& node, std::string_view part, const std::string& path) {
    if (part.empty()) fail(ExitCode::usage, "--set ", path, ": an empty part in the key's path");
    if (node.kind == YamlNode::Kind::list) {
        const auto index = parse_int(part);
        if (!index || *index < 0 || std::cmp_greater_equal(*index, node.items.size())) {
            fail(ExitCode::usage, "--set ", path, ": ", part, " is not an index below ",
                 node.items.size(), ", the length of the list");
        }
        return node.items[static_cast<std::size_t>(*index)];
    }
    if (node.kind == YamlNode::Kind::scalar) {
        fail(ExitCode::usage, "--set ", path, ": ", part, " is not inside a section; found ",
             display_text(node));
    }
    node.kind = YamlNode::Kind::map;
    if (YamlNode* found = node.find(part)) return *found;
    // The new section takes its parent's location, where missing keys are then reported.
    node.members.push_back({std::string(part), {}, {YamlNode::Kind::null, node.location}});
    return node.members.back().value;
}

/// Overrides the file's values with `key.path=value`.
void apply_setting(YamlNode& root, std::string_view setting) {
    const std::size_t equals = setting.find('=');
    const std::string path(setting.substr(0, equals));
    if (equals == std::string_view::npos || path.empty() || path.size() > max_setting_path ||
        !is_one_line(path)) {
        fail(ExitCode::usage, "--set ", display_text(setting), ": write key.path=value");
    }
    YamlNode value = parse_yaml(setting.substr(equals + 1), {path, true});
    YamlNode* node = &root;
    for (std::size_t start = 0; start <= path.size();) {
        const std::size_t end = std::min(path.find('.', start), path.size());
        node = &step_into(*node, std::string_view(path).substr(start, end - start), path);
        start = end + 1;
    }
    *node = std::move(value);
}

/// Records the locations of everything in a map or list.
void record_locations(const YamlNode& node, const std::string& prefix, SpecLocations& locations) {
    const auto record = [&](const YamlNode& value, const std::string& path) {
        const YamlLocation& at = value.location;
        locations.by_key[path] = at.line == 0 ? text("--set ", path)
                                              : text(locations.file, ":", at.line, ":", at.column);
        locations.values[path] = value.scalar;
        record_locations(value, path + ".", locations);
    };
    for (const YamlMember& member : node.members)
        record(member.value, prefix + member.key);
    for (std::size_t i = 0; i < node.items.size(); ++i)
        record(node.items[i], text(prefix, i));
}

}  // namespace

RunSpec parse_run_spec(std::string_view yaml, std::string_view source,
                       const std::vector<std::string>& settings) {
    const std::string file(source);
    if (std::cmp_greater(yaml.size(), max_file_bytes)) {
        fail(ExitCode::usage, file, ": a run spec has at most ", human_bytes(max_file_bytes));
    }
    YamlNode root = parse_yaml(yaml, {file});
    if (root.kind == YamlNode::Kind::null) root = {YamlNode::Kind::map, {1, 1}};
    for (const std::string& setting : settings)
        apply_setting(root, setting);
    RunSpec spec;
    read(SpecValue{file, root, ""}, spec, Any{});
    spec.locations.file = file;
    record_locations(root, "", spec.locations);
    return spec;
}

std::string SpecLocations::of(std::string_view message) const {
    std::string_view key = message.substr(0, message.find_first_of(" :"));
    while (!key.empty()) {
        if (const auto found = by_key.find(key); found != by_key.end()) return found->second;
        const std::size_t dot = key.rfind('.');
        key = dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
    }
    return file;
}

RunSpec load_run_spec(const std::filesystem::path& file, const std::vector<std::string>& settings) {
    return parse_run_spec(read_file(file, max_file_bytes, ExitCode::usage), file.string(),
                          settings);
}

}  // namespace gptrain
