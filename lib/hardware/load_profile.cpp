#include "hardware/load_profile.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "hardware/built_in.h"
#include "hardware/profile_keys.h"
#include "spec/section_reader.h"
#include "spec/yaml_tree.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_file_bytes = 1 << 20;
constexpr std::string_view correction_key = "correction";

// Slower than the profiles of the program.
constexpr double cautious_memory_efficiency = 0.75;
constexpr double cautious_gemm_efficiency = 0.6;
constexpr double cautious_op_seconds = 4e-6;  // of a GPU
constexpr double cautious_issue_seconds = 6e-6;
constexpr double cautious_core_op_seconds = 20e-6;  // of a CPU, whose threads start and end an op

/// Gives what is not in the file its cautious value.
class Assumptions {
public:
    Assumptions(HardwareProfile& profile, const YamlNode& device)
        : profile_(profile), device_(device) {}

    void take(std::string_view key, double& value, double cautious) {
        if (device_.find(key) != nullptr) return;
        value = cautious;
        profile_.assumed.push_back(text("device.", key, " ", cautious));
    }

    /// The entries for the precisions that the device has.
    void take(std::string_view key, PrecisionShares& shares, double cautious) {
        const YamlNode* given = device_.find(key);
        for (const auto& [precision, share, peak] :
             {std::tuple("fp32", &shares.fp32, profile_.device.peak_flops.fp32),
              std::tuple("bf16", &shares.bf16, profile_.device.peak_flops.bf16),
              std::tuple("fp16", &shares.fp16, profile_.device.peak_flops.fp16),
              std::tuple("fp8", &shares.fp8, profile_.device.peak_flops.fp8)}) {
            if (peak == 0 || (given != nullptr && given->find(precision) != nullptr)) continue;
            *share = cautious;
            profile_.assumed.push_back(text("device.", key, ".", precision, " ", cautious));
        }
    }

private:
    HardwareProfile& profile_;
    const YamlNode& device_;
};

void assume_the_rest(HardwareProfile& profile, const YamlNode& root) {
    DeviceProfile& device = profile.device;
    if (!device.measured.empty()) return;
    Assumptions assume(profile, *root.find("device"));
    assume.take("memory_efficiency", device.memory_efficiency, cautious_memory_efficiency);
    assume.take("gemm_efficiency", device.gemm_efficiency, cautious_gemm_efficiency);
    const bool is_cpu = profile.kind == DeviceChoice::cpu;
    assume.take("op_seconds", device.op_seconds,
                is_cpu ? cautious_core_op_seconds : cautious_op_seconds);
    if (!is_cpu) assume.take("issue_seconds", device.issue_seconds, cautious_issue_seconds);
}

/// True for the one that a GPU's name means where there are several of that GPU.
bool is_usual(std::string_view profile) {
    return profile == "a100-80gb" || profile == "h100-sxm";
}

}  // namespace

HardwareProfile parse_profile(std::string_view yaml, std::string_view source) {
    const SpecFile file = {std::string(source), key_paths<HardwareProfile>()};
    YamlNode root = parse_yaml(yaml, {file.name});
    if (root.kind == YamlNode::Kind::null) root = {YamlNode::Kind::map, {1, 1}};
    HardwareProfile profile;
    read(SpecValue{file, root, ""}, profile, Any{});
    profile.calibrated = !profile.device.measured.empty() || root.find(correction_key) != nullptr;
    assume_the_rest(profile, root);
    return slowed_down(profile, profile.correction);
}

std::vector<std::string_view> profile_names() {
    std::vector<std::string_view> names;
    for (const BuiltInProfile& profile : built_in_profiles())
        names.push_back(profile.name);
    return names;
}

std::string_view profile_meant(const std::string& word) {
    std::string lower = word;
    for (char& c : lower)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    std::vector<std::string_view> candidates;
    for (const BuiltInProfile& profile : built_in_profiles()) {
        const std::string_view name = profile.name;
        if (name == word) return name;
        if (name == lower || name.starts_with(lower + "-") || name == "rtx-" + lower)
            candidates.push_back(name);
    }
    const auto usual = std::find_if(candidates.begin(), candidates.end(), is_usual);
    std::string_view found;
    if (candidates.size() == 1) found = candidates.front();
    if (usual != candidates.end()) found = *usual;
    std::error_code error;
    return std::filesystem::exists(word, error) ? std::string_view() : found;
}

std::string profiles_by_kind(std::string_view except) {
    std::string list;
    for (const auto& [kind, heading] :
         {std::pair(DeviceChoice::cuda, "GPUs"), std::pair(DeviceChoice::cpu, "CPUs")}) {
        std::string names;
        for (const BuiltInProfile& profile : built_in_profiles()) {
            if (profile.name == except || parse_profile(profile.yaml, profile.name).kind != kind)
                continue;
            names += text(names.empty() ? "" : ", ", profile.name);
        }
        if (!names.empty()) list += text(list.empty() ? "" : "; ", heading, " ", names);
    }
    return list;
}

namespace {

/// The text of a profile and the name of its source.
struct ProfileText {
    std::string yaml;
    std::string source;
};

ProfileText read_profile(const std::string& name_or_file) {
    const std::string_view meant = profile_meant(name_or_file);
    for (const BuiltInProfile& profile : built_in_profiles()) {
        if (profile.name == meant) return {std::string(profile.yaml), text(profile.name, ".yaml")};
    }
    std::error_code error;
    if (!std::filesystem::exists(name_or_file, error)) {
        fail(ExitCode::usage, "--hardware ", name_or_file,
             ": no such file, and this program has profiles of ", profiles_by_kind());
    }
    return {read_file(name_or_file, max_file_bytes, ExitCode::usage), name_or_file};
}

constexpr std::string_view correction_comment = "# correction: ";

/// Describes the CPU of `here` instead of a usual server.
void set_node(YamlNode& root, const HardwareProfile& here) {
    YamlNode& node = *root.find("node");
    std::erase_if(node.members, [](const YamlMember& member) { return member.key == "network"; });
    node.find("devices")->scalar = text(here.node.devices);
    root.find("device")->find("memory")->scalar = text(here.device.memory);
}

/// True if the keys of the document begin lines, so that another key can follow on a new line.
bool has_key_lines(const YamlNode& root, std::string_view yaml) {
    std::string_view rest = yaml;
    for (int line = 1; line < root.location.line; ++line)
        rest.remove_prefix(std::min(rest.size(), rest.find('\n') + 1));
    const bool braces =
        rest.substr(0, static_cast<std::size_t>(root.location.column)).ends_with('{');
    return !braces && std::all_of(root.members.begin(), root.members.end(),
                                  [](const YamlMember& each) { return each.location.column == 1; });
}

}  // namespace

HardwareProfile load_profile(const std::string& name_or_file) {
    const ProfileText profile = read_profile(name_or_file);
    return parse_profile(profile.yaml, profile.source);
}

std::string corrected_profile(const std::string& name_or_file, double correction,
                              const std::string& origin, const HardwareProfile& used) {
    const ProfileText profile = read_profile(name_or_file);
    YamlNode root = parse_yaml(profile.yaml, {profile.source});
    std::string out;
    const bool of_program = !profile_meant(name_or_file).empty();
    const bool is_guess = of_program && used.kind == DeviceChoice::cpu;
    if (is_guess) set_node(root, used);
    if (!is_guess && has_key_lines(root, profile.yaml)) {
        const YamlMember* old = nullptr;
        for (const YamlMember& member : root.members)
            if (member.key == correction_key) old = &member;
        int number = 0;
        for (std::string_view rest = profile.yaml; !rest.empty();) {
            const std::string_view line = rest.substr(0, rest.find('\n'));
            rest.remove_prefix(std::min(rest.size(), line.size() + 1));
            ++number;
            const bool is_old = old != nullptr && number >= old->location.line &&
                                number <= old->value.location.line;
            if (is_old || line.starts_with(correction_comment)) continue;
            out += text(line, "\n");
        }
    } else {
        std::erase_if(root.members,
                      [](const YamlMember& member) { return member.key == correction_key; });
        out = to_yaml(root);
        if (!out.ends_with('\n')) out += '\n';
    }
    out += text(correction_comment, origin, "\n", correction_key, ": ", fixed(correction, 4), "\n");
    parse_profile(out, profile.source);
    return out;
}

}  // namespace gptrain
