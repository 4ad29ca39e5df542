// JSON, read strictly. nlohmann-json is seen only here.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

/// Keys keep the order in which they were written.
using Json = nlohmann::ordered_json;

/// Parses one JSON value that takes up all of `json`. Refused as Error (bad_input) that names
/// `source`, line and column: syntax errors, duplicate keys, nesting above 64, trailing bytes.
Json parse_json(std::string_view json, std::string_view source);

/// Typed access to the members of an object; a member that is missing or of another type is an
/// Error (bad_input) that names `source` and the key.
class JsonReader {
public:
    JsonReader(const Json& object, std::string source);
    std::int64_t integer(std::string_view key) const;
    double number(std::string_view key) const;
    bool boolean(std::string_view key) const;
    const std::string& string(std::string_view key) const;
    const Json& object(std::string_view key) const;
    const Json& array(std::string_view key) const;
    std::vector<std::int64_t> integers(std::string_view key) const;
    bool has(std::string_view key) const;
    /// Refuses members that are not in `known`.
    void allow_only(std::initializer_list<std::string_view> known) const;

private:
    const Json& member(std::string_view key) const;
    const Json& object_;
    std::string source_;
};

/// One line of text; numbers in shortest form, non-finite ones as null.
std::string to_line(const Json& json);

}  // namespace gptrain
