// The names of the files that each rank writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gptrain {

/// "shard-00000.h5" and "record-00000.json".
std::string shard_file_name(std::int64_t shard);
std::string record_file_name(std::int64_t shard);
/// The number in such a name; nothing for other names.
std::optional<std::int64_t> shard_number_of(std::string_view name);
std::optional<std::int64_t> record_number_of(std::string_view name);
/// The number in the name of a shard file.
std::int64_t shard_number(const std::string& name);

}  // namespace gptrain
