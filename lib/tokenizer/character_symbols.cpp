#include "tokenizer/character_symbols.h"

#include <algorithm>

#include "tokenizer/byte_alphabet.h"
#include "unicode/unicode.h"

namespace gptrain {
namespace {

WordTable characters_of(const TokenizerDescription& description) {
    return words_among_tokens(description, [](std::string_view bytes) {
        return !bytes.empty() && first_char(bytes).bytes == bytes.size();
    });
}

}  // namespace

CharacterSymbols::CharacterSymbols(const TokenizerDescription& description)
    : characters_(characters_of(description)),
      byte_ids_(description.byte_ids),
      unknown_(description.unknown),
      fuses_unknown_(description.fuses_unknown) {
    for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte)
        has_all_bytes_ &= byte_ids_[byte] >= 0 || !is_in_utf8(byte);
}

bool CharacterSymbols::has_bytes(std::string_view character) const {
    return has_all_bytes_ || std::ranges::all_of(character, [this](char byte) {
               return byte_ids_[static_cast<unsigned char>(byte)] >= 0;
           });
}

CharacterSymbols::Word CharacterSymbols::symbols_of(std::string_view word) const {
    Word symbols;
    const auto add = [&symbols](std::int32_t id, std::size_t at) {
        symbols.ids.push_back(id);
        symbols.begins.push_back(at);
    };
    // As in the library `tokenizers`, an unknown character comes after the bytes that follow it.
    constexpr std::size_t none = std::string_view::npos;
    std::size_t unknown_at = none;
    const auto add_unknown = [&] {
        if (unknown_at != none) add(unknown_, unknown_at);
        unknown_at = none;
    };
    for (std::size_t at = 0; at < word.size();) {
        const std::string_view character = word.substr(at, first_char(word.substr(at)).bytes);
        if (const auto id = characters_.find(character)) {
            add_unknown();
            add(*id, at);
        } else if (has_bytes(character)) {
            for (std::size_t i = 0; i < character.size(); ++i)
                add(byte_ids_[static_cast<unsigned char>(character[i])], at + i);
        } else if (unknown_ >= 0) {
            if (!fuses_unknown_) add_unknown();
            if (unknown_at == none) unknown_at = at;
        }
        at += character.size();
    }
    add_unknown();
    return symbols;
}

bool splits_before_marks(const TokenizerDescription& description) {
    const auto bytes_of = [&](std::int32_t id) -> std::string_view {
        return description.tokens[static_cast<std::size_t>(id)].bytes;
    };
    const auto has_mark = std::ranges::find(description.tokens, space_mark, &BpeToken::bytes) !=
                          description.tokens.end();
    // Parts would touch where a character is left out, and a whole word may be a token.
    const bool keeps_all = description.unknown >= 0 || CharacterSymbols(description).is_lossless();
    return has_mark && keeps_all && !description.ignore_merges &&
           std::ranges::none_of(description.merges, [&](const BpeMerge& merge) {
               return bytes_of(merge.right).starts_with(space_mark) &&
                      !bytes_of(merge.left).ends_with(space_mark);
           });
}

}  // namespace gptrain
