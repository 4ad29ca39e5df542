#include "tokenizer/added_token_files.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "tokenizer/tokenizer_config.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_config_bytes = std::int64_t{16} << 20;

/// Inserts the tokens that a value of a special_tokens_map.json names.
void add_names(const Json& value, std::set<std::string>& names) {
    if (value.is_string()) names.insert(value.get<std::string>());
    if (value.is_object() && value.contains("content")) add_names(value.at("content"), names);
    if (!value.is_array()) return;
    for (const Json& one : value)
        add_names(one, names);
}

/// The names of the tokens for padding.
std::set<std::string> pads_of(const Json& config, const std::string& source, const Json& special) {
    std::set<std::string> pads = {token_in_config(config, source, "pad_token")};
    if (special.contains("pad_token")) add_names(special.at("pad_token"), pads);
    return pads;
}

}  // namespace

NamedText file_in(const std::filesystem::path& folder, const char* name) {
    const std::filesystem::path path = folder / name;
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return {};
    return {read_file(path, max_config_bytes), path.string()};
}

Json object_in(const NamedText& file) {
    return file.source.empty() ? Json::object() : parse_json(file.bytes, file.source);
}

Json added_token(std::string_view content, std::int64_t id, bool special) {
    return {{"id", id}, {"content", content}, {"special", special}};
}

Json added_tokens_of(const Json& config, const std::string& source) {
    Json added = Json::array();
    if (!config.contains("added_tokens_decoder")) return added;
    for (const auto& [id, token] :
         JsonReader(config, source).object("added_tokens_decoder").items()) {
        const JsonReader reader(token, source + ": added_tokens_decoder");
        const auto number = parse_int(id);
        if (!number)
            fail(ExitCode::bad_input, source, ": added_tokens_decoder: an id must be a number");
        Json entry = added_token(reader.string("content"), *number, reader.boolean("special"));
        for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"})
            if (reader.has(flag)) entry[flag] = reader.boolean(flag);
        added.push_back(std::move(entry));
    }
    return added;
}

Json added_tokens_of(const NamedText& file, const NamedText& special) {
    Json added = Json::array();
    if (file.source.empty()) return added;
    std::set<std::string> names;
    if (!special.source.empty()) {
        const Json map = parse_json(special.bytes, special.source);
        for (const auto& [key, value] : map.items())
            add_names(value, names);
    }
    const Json tokens = parse_json(file.bytes, file.source);
    const JsonReader reader(tokens, file.source);
    for (const auto& [content, id] : tokens.items())
        added.push_back(added_token(content, reader.integer(content), names.contains(content)));
    return added;
}

TokensOfModel tokens_added_to(const std::filesystem::path& model, std::int64_t pieces) {
    const std::filesystem::path folder = model.parent_path();
    const NamedText config_file = file_in(folder, "tokenizer_config.json");
    const NamedText special_file = file_in(folder, "special_tokens_map.json");
    const Json config = object_in(config_file);
    const auto pads = pads_of(config, config_file.source, object_in(special_file));
    TokensOfModel result;
    result.added = added_tokens_of(config, config_file.source);
    for (Json& token : added_tokens_of(file_in(folder, "added_tokens.json"), special_file)) {
        const auto is_same = [&](const Json& other) { return other.at("id") == token.at("id"); };
        if (std::none_of(result.added.begin(), result.added.end(), is_same))
            result.added.push_back(std::move(token));
    }
    result.legacy = config.contains("legacy") && config.at("legacy") == true;
    const auto is_new = [&](const Json& token) {
        return token.at("id").get<std::int64_t>() >= pieces &&
               !pads.contains(token.at("content").get<std::string>());
    };
    if (std::none_of(result.added.begin(), result.added.end(), is_new)) result.added.clear();
    return result;
}

}  // namespace gptrain
