// The regular expressions of the pre-tokenizer Split, as tokenizer.json spells them.
#pragma once

#include <optional>
#include <string_view>

#include "tokenizer/pre_tokenizer.h"

namespace gptrain {

struct SplitPattern {
    std::string_view regex;
    Splitter splitter = Splitter::gpt2;
    bool covers = true;  ///< it matches all of a text
};

/// The pattern that is spelled exactly so; nothing if gptrain does not know it.
std::optional<SplitPattern> split_pattern(std::string_view regex);

/// The preferred spelling of a splitter that is a pattern.
std::string_view regex_of(Splitter splitter);

}  // namespace gptrain
