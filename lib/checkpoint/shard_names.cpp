#include "checkpoint/shard_names.h"

#include "base/error.h"
#include "base/text.h"

namespace gptrain {
namespace {

/// The parts of a file's name before and after the number.
struct NameParts {
    std::string_view prefix;
    std::string_view suffix;
};
constexpr NameParts shard_name = {"shard-", ".h5"};
constexpr NameParts record_name = {"record-", ".json"};

std::string numbered(const NameParts& parts, std::int64_t shard) {
    const std::string digits = text(shard);
    const std::string zeros(digits.size() < 5 ? 5 - digits.size() : 0, '0');
    return text(parts.prefix, zeros, digits, parts.suffix);
}

std::optional<std::int64_t> number_in(const NameParts& parts, std::string_view name) {
    if (!name.starts_with(parts.prefix) || !name.ends_with(parts.suffix)) return std::nullopt;
    name.remove_prefix(parts.prefix.size());
    if (name.size() < parts.suffix.size()) return std::nullopt;
    name.remove_suffix(parts.suffix.size());
    const auto number = parse_int(name);
    if (!number || *number < 0 || numbered({}, *number) != name) return std::nullopt;
    return number;
}

}  // namespace

std::string shard_file_name(std::int64_t shard) {
    return numbered(shard_name, shard);
}
std::string record_file_name(std::int64_t shard) {
    return numbered(record_name, shard);
}
std::optional<std::int64_t> shard_number_of(std::string_view name) {
    return number_in(shard_name, name);
}
std::optional<std::int64_t> record_number_of(std::string_view name) {
    return number_in(record_name, name);
}
std::int64_t shard_number(const std::string& name) {
    const auto number = shard_number_of(name);
    GPTRAIN_CHECK(number.has_value(), name, " is not the name of a shard file");
    return *number;
}

}  // namespace gptrain
