#include "spec/spec_settings.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "spec/spec_json.h"

namespace gptrain {
namespace {

constexpr std::size_t max_setting_path = 200;

/// Turns the short forms of a section into one: `none`, all layers of experts, the kind of an
/// objective alone, and one base of all rotations.
void open_short_form(YamlNode& node, const std::string& path) {
    if (node.kind != YamlNode::Kind::scalar || node.quoted) return;
    const bool all_layers = node.scalar == "all" && path.starts_with("model.experts.layers.");
    if (node.scalar == "none" || all_layers) node = {YamlNode::Kind::null, node.location};
    const auto wrap = [&](const char* key) {
        const YamlNode value = node;
        node = {YamlNode::Kind::map, node.location};
        node.members.push_back({key, value.location, value});
    };
    if (node.scalar == "mlm" && path.starts_with("objective.")) return wrap("kind");
    if (path.starts_with("model.rope_theta.")) wrap("full");
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
    open_short_form(node, path);
    if (node.kind == YamlNode::Kind::scalar) {
        fail(ExitCode::usage, "--set ", path, ": ", part, " is not inside a section; found ",
             display_text(node));
    }
    if (node.find(part) == nullptr && parse_int(part)) {
        fail(ExitCode::usage, "--set ", path, ": there is no list to change; give the whole list");
    }
    node.kind = YamlNode::Kind::map;
    if (YamlNode* found = node.find(part)) return *found;
    // The new section takes its parent's location, where missing keys are then reported.
    node.members.push_back({std::string(part), {}, {YamlNode::Kind::null, node.location}});
    return node.members.back().value;
}

/// A setting of parallel.shard replaces its former key in the file, and the other way round.
void drop_other_form(YamlNode& root, std::string_view path) {
    constexpr std::string_view forms[] = {"shard", "shard_optimizer"};
    YamlNode* const parallel = root.find("parallel");
    for (int set = 0; set < 2; ++set) {
        if (parallel == nullptr || path != text("parallel.", forms[set])) continue;
        std::erase_if(parallel->members,
                      [&](const YamlMember& each) { return each.key == forms[1 - set]; });
    }
}

}  // namespace

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
    drop_other_form(root, path);
}

std::vector<std::string> changed_keys(const RunSpec& from, const RunSpec& to) {
    const Json before = to_json(from);
    const Json after = to_json(to);
    std::vector<std::string> settings;
    const auto compare = [&](const std::string& key, const Json& old, const Json& now) {
        if (old == now) return;
        settings.push_back(text(key, "=", now.is_string() ? now.get<std::string>() : to_line(now)));
    };
    for (const auto& [section, values] : after.items()) {
        if (!values.is_object() || !before[section].is_object()) {
            compare(section, before[section], values);
            continue;
        }
        for (const auto& [key, value] : values.items())
            compare(text(section, ".", key), before[section][key], value);
    }
    return settings;
}

std::string edited_run_spec(const std::filesystem::path& file,
                            const std::vector<std::string>& settings) {
    YamlNode root = parse_yaml(read_file(file, max_spec_bytes, ExitCode::usage), {file.string()});
    for (const std::string& setting : settings)
        apply_setting(root, setting);
    return to_yaml(root);
}

}  // namespace gptrain
