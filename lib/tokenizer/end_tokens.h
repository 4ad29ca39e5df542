// The tokens with which a model ends a text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {

class EndTokens {
public:
    void add(std::int64_t id) { ids_.push_back(id); }
    /// Adds the token that the word is, if it is a single one.
    void add(const Tokenizer& tokenizer, std::string_view word);
    /// Adds the ids below `vocab` in eos_token_id of a generation_config.json: none, one or a list
    /// of them. Error (bad_input) that names `source`: it is something else.
    void add_generation_config(const Json& config, const std::string& source, std::int64_t vocab);

    bool contains(std::int32_t id) const;
    /// The first one added.
    std::optional<std::int64_t> first() const;

private:
    std::vector<std::int64_t> ids_;
};

}  // namespace gptrain
