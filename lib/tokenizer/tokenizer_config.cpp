#include "tokenizer/tokenizer_config.h"

#include "base/file.h"
#include "base/text.h"

namespace gptrain {

std::string token_in_config(const Json& config, const std::string& source, const std::string& key) {
    const JsonReader reader(config, source);
    if (!reader.has(key) || config.at(key).is_null()) return "";
    if (!config.at(key).is_object()) return reader.string(key);
    return JsonReader(config.at(key), text(source, ": ", key)).string("content");
}

std::string configured_eos_token(const std::filesystem::path& tokenizer) {
    constexpr std::int64_t max_bytes = std::int64_t{16} << 20;
    const std::filesystem::path path = tokenizer.parent_path() / "tokenizer_config.json";
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return "";
    return token_in_config(parse_json(read_file(path, max_bytes), path.string()), path.string(),
                           "eos_token");
}

}  // namespace gptrain
