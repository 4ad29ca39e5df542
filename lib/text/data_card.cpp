#include "text/data_card.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/letters.h"
#include "base/text.h"
#include "spec/yaml_tree.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_card_bytes = std::int64_t{16} << 20;

/// The lines of the key `configs` in the YAML at the beginning of a card, with empty lines for the
/// others, so that places in errors are those of the card.
std::string configs_of(std::string_view card) {
    std::string yaml;
    bool inside = false;
    bool is_key = false;
    while (!card.empty()) {
        std::string_view line = card.substr(0, card.find('\n'));
        card.remove_prefix(std::min(card.size(), line.size() + 1));
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line == "---" && inside) break;
        if (!inside && line != "---") return "";
        const bool begins_key =
            !line.empty() && std::string_view(" \t-#").find(line[0]) == std::string_view::npos;
        if (begins_key) is_key = line.starts_with("configs:");
        if (inside && is_key) yaml += line;
        yaml += '\n';
        inside = true;
    }
    return yaml;
}

class CardReader {
public:
    explicit CardReader(const std::filesystem::path& card) : name_(card.string()) {}

    std::vector<CardSubset> subsets(const YamlNode& root) const {
        std::vector<CardSubset> subsets;
        const YamlNode* configs = root.find("configs");
        if (configs == nullptr) return subsets;
        for (const YamlNode& config : items_of(*configs))
            subsets.push_back(subset(config));
        return subsets;
    }

private:
    [[noreturn]] void refuse(const YamlNode& node, std::string_view why) const {
        fail(ExitCode::bad_input, name_, ":", node.location.line, ":", node.location.column, ": ",
             why, "; name the files themselves");
    }

    const std::vector<YamlNode>& items_of(const YamlNode& node) const {
        if (node.kind != YamlNode::Kind::list) refuse(node, "must be a list");
        return node.items;
    }

    std::string word(const YamlNode& node) const {
        if (node.kind != YamlNode::Kind::scalar) refuse(node, "must be a text");
        return node.scalar;
    }

    CardSubset subset(const YamlNode& config) const {
        CardSubset subset;
        const YamlNode* name = config.find("config_name");
        if (name == nullptr) refuse(config, "a config without config_name");
        subset.name = word(*name);
        const YamlNode* is_default = config.find("default");
        subset.is_default =
            is_default == nullptr ? subset.name == "default" : word(*is_default) == "true";
        const YamlNode* files = config.find("data_files");
        if (files == nullptr) return subset;
        const bool by_split = files->kind == YamlNode::Kind::list && !files->items.empty() &&
                              files->items[0].kind == YamlNode::Kind::map;
        if (!by_split) {
            subset.splits = {{"train", patterns(*files)}};
            return subset;
        }
        for (const YamlNode& split : files->items) {
            const YamlNode* split_name = split.find("split");
            const YamlNode* path = split.find("path");
            if (split_name == nullptr || path == nullptr)
                refuse(split, "data_files without split or path");
            subset.splits.push_back({word(*split_name), patterns(*path)});
        }
        return subset;
    }

    /// A pattern or a list of them.
    std::vector<std::string> patterns(const YamlNode& node) const {
        if (node.kind == YamlNode::Kind::scalar) return {node.scalar};
        std::vector<std::string> patterns;
        for (const YamlNode& item : items_of(node))
            patterns.push_back(word(item));
        return patterns;
    }

    std::string name_;
};

/// Matches the set at the beginning of `pattern`, behind its bracket, and takes it off; false also
/// if the set has no end.
bool take_set(std::string_view& pattern, char c) {
    const std::size_t end = pattern.find(']', 1);
    if (end == std::string_view::npos) return false;
    std::string_view set = pattern.substr(0, end);
    pattern.remove_prefix(end + 1);
    const bool negated = set[0] == '!' || set[0] == '^';
    if (negated) set.remove_prefix(1);
    bool found = false;
    for (std::size_t i = 0; i < set.size(); ++i) {
        const bool is_range = i + 2 < set.size() && set[i + 1] == '-';
        found = found || (is_range ? set[i] <= c && c <= set[i + 2] : set[i] == c);
        if (is_range) i += 2;
    }
    return found != negated;
}

/// A part of a path, between slashes. Goes back only to the last `*`, so time is at most the
/// product of the lengths.
bool matches_part(std::string_view part, std::string_view pattern) {
    std::size_t at = 0;
    std::string_view rest = pattern;
    std::string_view behind_star;
    std::size_t star_at = std::string_view::npos;
    while (at < part.size()) {
        std::string_view next = rest;
        bool fits = false;
        if (!rest.empty() && rest[0] == '*') {
            rest.remove_prefix(1);
            behind_star = rest;
            star_at = at;
            continue;
        }
        if (!rest.empty()) {
            next.remove_prefix(1);
            fits =
                rest[0] == '[' ? take_set(next, part[at]) : rest[0] == '?' || rest[0] == part[at];
        }
        if (fits) {
            rest = next;
            ++at;
        } else if (star_at == std::string_view::npos) {
            return false;
        } else {
            rest = behind_star;
            at = ++star_at;
        }
    }
    return rest.find_first_not_of('*') == std::string_view::npos;
}

std::vector<std::string_view> parts_of(std::string_view path) {
    std::vector<std::string_view> parts;
    while (true) {
        const std::string_view part = path.substr(0, path.find('/'));
        if (!part.empty() && part != ".") parts.push_back(part);
        if (part.size() == path.size()) return parts;
        path.remove_prefix(part.size() + 1);
    }
}

/// The words for splits.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> split_words = {
    {{"train", "train"},
     {"training", "train"},
     {"validation", "validation"},
     {"valid", "validation"},
     {"val", "validation"},
     {"dev", "validation"},
     {"test", "test"},
     {"testing", "test"},
     {"eval", "test"}}};

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// SPLIT of "data/SPLIT-00000-of-00002...".
std::string_view numbered_split(std::string_view path) {
    constexpr std::string_view folder = "data/";
    if (!path.starts_with(folder)) return {};
    path.remove_prefix(folder.size());
    constexpr std::string_view form = "-00000-of-00000";
    const std::size_t begin = path.find("-0");
    if (begin == 0 || begin == std::string_view::npos || path.size() - begin < form.size())
        return {};
    const std::string_view number = path.substr(begin, form.size());
    for (std::size_t i = 0; i < form.size(); ++i) {
        if (is_digit(form[i]) ? !is_digit(number[i]) : number[i] != form[i]) return {};
    }
    return path.substr(0, begin);
}

}  // namespace

std::vector<CardSubset> read_data_card(const std::filesystem::path& card) {
    std::error_code missing;
    if (!std::filesystem::is_regular_file(card, missing)) return {};
    const std::string yaml = configs_of(read_file(card, max_card_bytes));
    try {
        return CardReader(card).subsets(parse_yaml(yaml, {card.string()}));
    } catch (const Error& error) {
        fail(ExitCode::bad_input, error.what());
    }
}

bool matches_pattern(std::string_view path, std::string_view pattern) {
    const auto names = parts_of(path);
    const auto patterns = parts_of(pattern);
    // fits[i]: the patterns so far match the first i names.
    std::vector<char> fits(names.size() + 1, 0);
    fits[0] = 1;
    for (const std::string_view one : patterns) {
        std::vector<char> next(names.size() + 1, 0);
        for (std::size_t i = 0; i <= names.size(); ++i) {
            if (one == "**") {
                next[i] = fits[i] != 0 || (i > 0 && next[i - 1] != 0) ? 1 : 0;
            } else if (i > 0) {
                next[i] = fits[i - 1] != 0 && matches_part(names[i - 1], one) ? 1 : 0;
            }
        }
        fits = std::move(next);
    }
    return fits.back() != 0;
}

std::string split_in_name(std::string_view path) {
    if (const std::string_view split = numbered_split(path); !split.empty())
        return std::string(split);
    std::string found;
    const auto is_letter = [](char c) {
        return std::string_view("-._/ 0123456789").find(c) == std::string_view::npos;
    };
    for (std::size_t begin = 0; begin < path.size();) {
        std::size_t end = begin;
        while (end < path.size() && is_letter(path[end]))
            ++end;
        const std::string word = in_lower_case(path.substr(begin, end - begin));
        for (const auto& [name, split] : split_words) {
            if (word == name) found = split;
        }
        begin = end + 1;
    }
    return found;
}

}  // namespace gptrain
