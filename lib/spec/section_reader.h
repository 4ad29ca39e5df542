// Reads sections of a YAML file by their visit_keys (spec_keys.h), with errors that name the
// location, the key and what is valid there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "spec/spec_keys.h"
#include "spec/yaml_tree.h"

namespace gptrain {

/// A file of keys and values, for error messages.
struct SpecFile {
    std::string name;
    std::vector<std::string> key_paths;  ///< of all keys that it may have
};

/// A value from the file or a setting, with what is needed to report an error about it.
struct SpecValue {
    const SpecFile& file;
    const YamlNode& node;
    std::string path;
    std::string_view open_word = {};  ///< valid instead of a value

    SpecValue inside(const YamlNode& child, std::string_view key,
                     std::string_view word = {}) const {
        return {file, child, path.empty() ? std::string(key) : text(path, ".", key), word};
    }

    [[noreturn]] void fail_here(const auto&... parts) const {
        fail_at(node.location, path, parts...);
    }

    [[noreturn]] void fail_at(YamlLocation location, std::string_view key,
                              const auto&... parts) const {
        const std::string where = location.line == 0
                                      ? text("--set ", key)
                                      : text(file.name, ":", location.line, ":", location.column,
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

/// Collects the paths of all keys, to find a key that was written in the wrong section.
struct KeyPaths {
    std::string prefix;
    std::vector<std::string> paths;

    void required(std::string_view key, const auto&...) { paths.push_back(text(prefix, key)); }
    /// Visits an optional section and the keys in it.
    template <class T>
    void open(std::string_view key, std::optional<T>&, const auto&...) {
        T inside{};
        value(key, inside);
    }
    template <class None, class... Sections>
    void open(std::string_view key, std::variant<None, Sections...>&, const auto&...) {
        std::tuple<Sections...> all;
        std::apply([&](auto&... sections) { (value(key, sections), ...); }, all);
    }
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

template <Section S>
std::vector<std::string> key_paths() {
    KeyPaths keys;
    S section;
    visit_keys(keys, section);
    return keys.paths;
}

/// A hint for an unknown key of the section `given`, whose keys are `known`: the nearest of them,
/// the same key elsewhere, or all of them.
std::string nearest_key(std::string_view key, const SpecValue& given,
                        const std::vector<std::string_view>& known);

/// An integer in plain decimal digits. Leading zeros are rejected: YAML would read them as octal.
std::optional<std::int64_t> integer_in(const YamlNode& node);
/// A hint for a number that was not written as one.
std::string number_hint(const YamlNode& node, bool number);
/// A hint at the word that was meant: a synonym from other programs, or a similar spelling.
std::string nearest_hint(const SpecValue& given, std::vector<std::string_view> words);

// Reading a value that breaks its rule is an Error (usage) with its location.

void read(const SpecValue& given, std::int64_t& value, const IntRange& range);
void read(const SpecValue& given, std::uint64_t& value, const IntRange& range);
void read(const SpecValue& given, double& value, const RealRange& range);
void read(const SpecValue& given, bool& value, Any);
/// A relative path is completed with the current folder.
void read(const SpecValue& given, std::filesystem::path& value, Any);

void read(const SpecValue& given, std::string& value, const auto& rule) {
    const YamlNode& node = given.node;
    if (node.kind != YamlNode::Kind::scalar || !is_one_line(node.scalar) ||
        !rule.accepts(node.scalar)) {
        given.reject(rule.description());
    }
    value = node.scalar;
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
    if constexpr (requires { other_words_of(E{}); }) {
        for (const auto& [candidate, word] : other_words_of(E{})) {
            if (given.node.scalar != word) continue;
            value = candidate;
            return;
        }
    }
    given.reject(words, nearest_hint(given, words));
}

/// A hint on how to write a value of type T, or a list of them.
template <class T>
constexpr std::string_view form_hint = "";
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
        if (node == nullptr) return;
        field.reset();
        if (node->scalar != word) read(given_.inside(*node, key, word), field.emplace(), rule);
    }
    template <class... Sections>
    void open(std::string_view key, std::variant<Sections...>& field, std::string_view word) {
        const YamlNode* node = given_.node.find(key);
        if (node == nullptr) return;
        field = {};
        if (node->scalar != word) read(given_.inside(*node, key, word), field, Any{});
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
                      nearest_key(member.key, given, known));
    }
    SectionReader reader(given);
    visit_keys(reader, section);
}

}  // namespace gptrain
