// BPE of characters as llama.cpp merges it: by the scores of tokens.
#pragma once

#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_description.h"

namespace gptrain {

struct CharacterScores {
    std::vector<float> scores;    ///< by id; the token with the highest is merged first
    std::string_view fault = {};  ///< why llama.cpp would find other ids; else empty
};

/// llama.cpp merges any two tokens that form a third one. So every such pair must be a merge, and
/// the merges that form a token must be neighbours in rank.
CharacterScores character_scores(const TokenizerDescription& description);

}  // namespace gptrain
