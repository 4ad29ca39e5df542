#include "base/file.h"
#include "spec/run_spec.h"
#include "spec/section_reader.h"
#include "spec/spec_settings.h"

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

/// A word without a dot or a slash is a name. A relative path is completed with the current folder.
void read(const SpecValue& given, TaskName& value, Any) {
    std::filesystem::path path;
    read(given, path, Any{});
    const bool name = given.node.scalar.find_first_of("./") == std::string::npos;
    value.text = name ? given.node.scalar : path.string();
}

/// A list, a section, or the word for the defaults.
void read(const SpecValue& given, ExpertLayers& layers, Any rule) {
    const YamlNode& node = given.node;
    if (node.kind == YamlNode::Kind::map) return read<ExpertLayers>(given, layers, rule);
    const ListOf<IntRange> list = {1, 100'000, {0, layer_count.high - 1}};
    if (node.kind == YamlNode::Kind::list) return read(given, layers.list, list);
    if (node.scalar != "all") given.reject({"all", "a section of `key: value`", "a list"});
}

/// One number, or a section.
void read(const SpecValue& given, RopeThetas& thetas, Any rule) {
    if (given.node.kind == YamlNode::Kind::map) return read<RopeThetas>(given, thetas, rule);
    read(given, thetas.full, positive);
}

/// The word alone stands for the section with the defaults.
void read(const SpecValue& given, MlmSpec& mlm, Any rule) {
    if (given.node.kind == YamlNode::Kind::map) return read<MlmSpec>(given, mlm, rule);
    const std::string_view word = name_of(mlm.kind);
    if (given.node.scalar != word)
        given.reject({word, "a section of `key: value`"}, nearest_hint(given, {word}));
}

/// With the former key of `shard`, which was true or false.
void read(const SpecValue& given, ParallelSpec& parallel, Any rule) {
    static constexpr std::string_view former = "shard_optimizer";
    const YamlNode* const node = given.node.find(former);
    if (node == nullptr) return read<ParallelSpec>(given, parallel, rule);
    const SpecValue value = given.inside(*node, former);
    if (given.node.find("shard") != nullptr)
        value.fail_here("is the former form of parallel.shard, which is here, too; remove it");
    bool shards = true;
    read(value, shards, rule);
    YamlNode rest = given.node;
    std::erase_if(rest.members, [](const YamlMember& member) { return member.key == former; });
    const SpecValue remaining = {given.file, rest, given.path, given.open_word};
    read<ParallelSpec>(remaining, parallel, rule);
    parallel.shard = shards ? Sharded::optimizer : Sharded::none;
}

void read(const SpecValue& given, Objective& objective, Any rule) {
    read(given, objective.emplace<MlmSpec>(), rule);
}

namespace {

/// Records the locations of everything in a map or list of a file.
void record_locations(const std::string& file, const YamlNode& node, const std::string& prefix,
                      SpecLocations& locations) {
    const auto record = [&](const YamlNode& value, const std::string& path) {
        const YamlLocation& at = value.location;
        locations.by_key[path] =
            at.line == 0 ? text("--set ", path) : text(file, ":", at.line, ":", at.column);
        locations.values[path] = value.scalar;
        record_locations(file, value, path + ".", locations);
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
    if (std::cmp_greater(yaml.size(), max_spec_bytes)) {
        fail(ExitCode::usage, source, ": a run spec has at most ", human_bytes(max_spec_bytes));
    }
    YamlNode root = parse_yaml(yaml, {file.name});
    if (root.kind == YamlNode::Kind::null) root = {YamlNode::Kind::map, {1, 1}};
    for (const std::string& setting : settings)
        apply_setting(root, setting);
    RunSpec spec;
    read(SpecValue{file, root, ""}, spec, Any{});
    spec.locations.file = file.name;
    record_locations(file.name, root, "", spec.locations);
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
    return parse_run_spec(read_file(file, max_spec_bytes, ExitCode::usage), file.string(),
                          settings);
}

void load_faults(const std::filesystem::path& file, RunSpec& spec) {
    const SpecFile source = {file.string(), key_paths<FaultInjectionSpec>()};
    if (spec.fault_injection)
        fail(ExitCode::usage, source.name, ": the run spec has faults, too (fault_injection)");
    const YamlNode root =
        parse_yaml(read_file(file, max_spec_bytes, ExitCode::usage), {source.name});
    read(SpecValue{source, root, ""}, spec.fault_injection.emplace(), Any{});
    record_locations(source.name, root, "fault_injection.", spec.locations);
}

}  // namespace gptrain
