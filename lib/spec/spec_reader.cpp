#include "base/file.h"
#include "spec/run_spec.h"
#include "spec/section_reader.h"

namespace gptrain {

template <>
constexpr std::string_view form_hint<DataSource> = "; write a source as {prefix: PATH}";

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

namespace {

constexpr std::int64_t max_file_bytes = 1 << 20;
constexpr std::size_t max_setting_path = 200;

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
    const SpecFile file = {std::string(source), key_paths<RunSpec>()};
    if (std::cmp_greater(yaml.size(), max_file_bytes)) {
        fail(ExitCode::usage, source, ": a run spec has at most ", human_bytes(max_file_bytes));
    }
    YamlNode root = parse_yaml(yaml, {file.name});
    if (root.kind == YamlNode::Kind::null) root = {YamlNode::Kind::map, {1, 1}};
    for (const std::string& setting : settings)
        apply_setting(root, setting);
    RunSpec spec;
    read(SpecValue{file, root, ""}, spec, Any{});
    spec.locations.file = file.name;
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
