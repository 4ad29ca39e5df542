#include "hardware/load_profile.h"

#include <algorithm>

#include "base/file.h"
#include "hardware/built_in.h"
#include "hardware/profile_keys.h"
#include "spec/section_reader.h"
#include "spec/yaml_tree.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_file_bytes = 1 << 20;

}  // namespace

HardwareProfile parse_profile(std::string_view yaml, std::string_view source) {
    const SpecFile file = {std::string(source), key_paths<HardwareProfile>()};
    YamlNode root = parse_yaml(yaml, {file.name});
    if (root.kind == YamlNode::Kind::null) root = {YamlNode::Kind::map, {1, 1}};
    HardwareProfile profile;
    read(SpecValue{file, root, ""}, profile, Any{});
    return slowed_down(profile, profile.correction);
}

std::vector<std::string_view> profile_names() {
    std::vector<std::string_view> names;
    for (const BuiltInProfile& profile : built_in_profiles())
        names.push_back(profile.name);
    return names;
}

namespace {

/// The text of a profile and the name of its source.
struct ProfileText {
    std::string yaml;
    std::string source;
};

ProfileText read_profile(const std::string& name_or_file) {
    for (const BuiltInProfile& profile : built_in_profiles()) {
        if (name_or_file == profile.name)
            return {std::string(profile.yaml), text(profile.name, ".yaml")};
    }
    std::error_code error;
    if (!std::filesystem::exists(name_or_file, error)) {
        fail(ExitCode::usage, "--hardware ", name_or_file,
             ": no such file, and the profiles of "
             "this program are ",
             choice_of(profile_names()));
    }
    return {read_file(name_or_file, max_file_bytes, ExitCode::usage), name_or_file};
}

constexpr std::string_view correction_comment = "# correction: ";
constexpr std::string_view correction_key = "correction";

/// True if the keys of the document begin lines, so that another one can follow in a line of its
/// own.
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
                              const std::string& origin) {
    const ProfileText profile = read_profile(name_or_file);
    YamlNode root = parse_yaml(profile.yaml, {profile.source});
    std::string out;
    if (has_key_lines(root, profile.yaml)) {
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
