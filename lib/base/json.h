// Strict JSON, with the numbers that Python adds. Only this file includes nlohmann-json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

/// Keys keep their order.
using Json = nlohmann::ordered_json;

/// Parses one JSON value that makes up all of `json`. The words NaN, Infinity and -Infinity, which
/// Python writes, are numbers that JsonReader::number refuses. Syntax errors, duplicate keys,
/// nesting above 64 and trailing bytes are Errors (bad_input) that name `source`, line and column.
Json parse_json(std::string_view json, std::string_view source);

/// Typed access to the members of an object. A member that is missing or has another type is an
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
    /// Members in neither list are an Error (bad_input).
    void allow_only(std::initializer_list<std::string_view> known,
                    std::initializer_list<std::string_view> more = {}) const;

private:
    const Json& member(std::string_view key) const;
    const Json& object_;
    std::string source_;
};

/// One line of text: numbers in shortest form, non-finite ones as null.
std::string to_line(const Json& json);

/// The same, indented, with a line feed at the end.
std::string to_document(const Json& json);

}  // namespace gptrain
