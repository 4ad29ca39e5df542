// A tokenizer that was accepted keeps its promises.
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace gptrain::test {

inline void check_decoding(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
    GPTRAIN_CHECK(find_invalid_utf8(tokenizer.decode(ids)) == std::string_view::npos);
}

/// Encodes the text and decodes the result. Text that the vocabulary cannot spell is refused.
inline void check_encoding(const Tokenizer& tokenizer, std::string_view text) {
    std::vector<std::int32_t> ids;
    try {
        tokenizer.encode(text, ids);
    } catch (const Error& error) {
        if (error.code() != ExitCode::bad_input) throw;
    }
    for (const std::int32_t id : ids)
        GPTRAIN_CHECK(id >= 0 && id < tokenizer.vocab_size(), id);
    check_decoding(tokenizer, ids);
}

/// Encodes a text of every kind of word, and decodes every id.
inline void use_tokenizer(const Tokenizer& tokenizer) {
    check_encoding(tokenizer,
                   "the  thin\n\xEF\xBD\xB1 \xE2\x84\xAB e\xCC\x81 1234 it's <|endoftext|>");
    std::vector<std::int32_t> every;
    for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id)
        every.push_back(id);
    check_decoding(tokenizer, every);
}

}  // namespace gptrain::test
