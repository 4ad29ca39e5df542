// The text that BERT's tokenizers see: without control characters, accents and case. As in the
// library `tokenizers`, categories are those of Unicode 8.0, decomposition that of 9.0, small
// letters those of 17.0.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "unicode/unicode.h"

namespace gptrain {

struct BertRules {
    bool clean_text = true;            ///< control characters are removed, other blanks are spaces
    bool handle_chinese_chars = true;  ///< a space on both sides of each
    bool strip_accents = true;
    bool lowercase = true;
};

/// The text in this form: a view of `buffer`, which receives it. `parts`, if given, is then filled
/// with the parts in order.
std::string_view normalize_bert(std::string_view text, const BertRules& rules, std::string& buffer,
                                std::vector<NormalizedPart>* parts);

/// Punctuation as BERT's pre-tokenizer has it: that of ASCII, symbols included, and that of
/// Unicode.
bool is_bert_punctuation(char32_t code);

}  // namespace gptrain
