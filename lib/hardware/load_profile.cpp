#include "hardware/load_profile.h"

#include <algorithm>

#include "base/file.h"
#include "hardware/built_in.h"
#include "hardware/profile_keys.h"
#include "spec/section_reader.h"

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
    return profile;
}

std::vector<std::string_view> profile_names() {
    std::vector<std::string_view> names;
    for (const BuiltInProfile& profile : built_in_profiles())
        names.push_back(profile.name);
    return names;
}

HardwareProfile load_profile(const std::string& name_or_file) {
    for (const BuiltInProfile& profile : built_in_profiles()) {
        if (name_or_file == profile.name)
            return parse_profile(profile.yaml, text(profile.name, ".yaml"));
    }
    std::error_code error;
    if (!std::filesystem::exists(name_or_file, error)) {
        fail(ExitCode::usage, "--hardware ", name_or_file,
             ": no such file, and the profiles of "
             "this program are ",
             choice_of(profile_names()));
    }
    return parse_profile(read_file(name_or_file, max_file_bytes, ExitCode::usage), name_or_file);
}

}  // namespace gptrain
