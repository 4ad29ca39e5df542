#include "tokenizer/end_tokens.h"

#include <algorithm>

namespace gptrain {

void EndTokens::add(const Tokenizer& tokenizer, std::string_view word) {
    if (word.empty()) return;
    for (const auto& [piece, id] : tokenizer.spelled_pieces())
        if (piece == word) return add(id);
    std::vector<std::int32_t> ids;
    tokenizer.encode(word, ids);
    if (ids.size() == 1) add(ids[0]);
}

void EndTokens::add_generation_config(const Json& config, const std::string& source,
                                      std::int64_t vocab) {
    constexpr const char* key = "eos_token_id";
    const JsonReader reader(config, source);
    if (!reader.has(key) || config.at(key).is_null()) return;
    const bool is_list = config.at(key).is_array();
    const std::vector<std::int64_t> ids =
        is_list ? reader.integers(key) : std::vector{reader.integer(key)};
    // transformers takes ids outside the vocabulary, too: they never come.
    for (const std::int64_t id : ids)
        if (id >= 0 && id < vocab) add(id);
}

bool EndTokens::contains(std::int32_t id) const {
    return std::find(ids_.begin(), ids_.end(), id) != ids_.end();
}

std::optional<std::int64_t> EndTokens::first() const {
    if (ids_.empty()) return std::nullopt;
    return ids_.front();
}

}  // namespace gptrain
