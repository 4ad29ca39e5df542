// Settings of a run spec's keys, `key.path=value`, and the spec's file with settings applied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "spec/run_spec.h"
#include "spec/yaml_tree.h"

namespace gptrain {

/// The largest file of a run spec.
constexpr std::int64_t max_spec_bytes = 1 << 20;

/// Overrides a value of the file. A mistake is an Error (usage) that names the setting.
void apply_setting(YamlNode& root, std::string_view setting);

/// The settings that turn the first spec into the second.
std::vector<std::string> changed_keys(const RunSpec& from, const RunSpec& to);

/// The run spec of a file with settings applied: the keys as the file has them and in its order,
/// new ones at the end of their section. Comments are lost.
std::string edited_run_spec(const std::filesystem::path& file,
                            const std::vector<std::string>& settings);

}  // namespace gptrain
