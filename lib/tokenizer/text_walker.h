// Walks a text (valid UTF-8) character by character, for the patterns that split it into words.
#pragma once

#include <cstddef>
#include <string_view>

#include "unicode/char_kind.h"
#include "unicode/unicode.h"

namespace gptrain {

/// The part of both walkers that looks at single bytes.
class ByteWalker {
public:
    explicit ByteWalker(std::string_view text, std::size_t at = 0) : text_(text), at_(at) {}

    std::size_t at() const { return at_; }
    bool at_end() const { return at_ == text_.size(); }
    bool is(char wanted) const { return !at_end() && text_[at_] == wanted; }
    bool is_newline() const { return is('\n') || is('\r'); }
    void skip_newlines() {
        while (is_newline())
            ++at_;
    }
    void skip_any(std::string_view characters) {
        while (!at_end() && characters.find(text_[at_]) != characters.npos)
            ++at_;
    }

protected:
    std::string_view text_;
    std::size_t at_;
};

/// Knows letters, numbers and white space (CharKind).
class Walker : public ByteWalker {
public:
    using ByteWalker::ByteWalker;
    using ByteWalker::is;

    bool is(CharKind kind) const { return !at_end() && next().kind == kind; }
    void skip_char() { at_ += next().bytes; }
    void skip_run(CharKind kind) {
        for (Next character; !at_end() && (character = next()).kind == kind;)
            at_ += character.bytes;
    }

private:
    struct Next {
        CharKind kind;
        std::size_t bytes;
    };

    Next next() const {
        const auto byte = static_cast<unsigned char>(text_[at_]);
        if (byte < 0x80) return {ascii_kinds[byte], 1};
        const DecodedChar character = first_char(text_.substr(at_));
        return {CharKinds::instance().of(character.code), character.bytes};
    }
};

/// Knows all categories (CharCategory).
class CategoryWalker : public ByteWalker {
public:
    using ByteWalker::ByteWalker;
    using ByteWalker::is;

    struct Next {
        char32_t code;
        CharCategory category;
        std::size_t bytes;
    };

    /// Not at the end.
    Next next() const {
        const auto byte = static_cast<unsigned char>(text_[at_]);
        if (byte < 0x80) return {byte, ascii_categories[byte], 1};
        const DecodedChar character = first_char(text_.substr(at_));
        return {character.code, CharCategories::instance().of(character.code), character.bytes};
    }
    bool is(CharSet set) const { return !at_end() && set.has(next().category); }
    void skip(const Next& character) { at_ += character.bytes; }
    void skip_char() { skip(next()); }
    /// True if there was at least one character.
    bool skip_run(CharSet set) {
        return skip_while([set](const Next& character) { return set.has(character.category); });
    }
    bool skip_while(const auto& belongs) {
        const std::size_t begin = at_;
        while (!at_end()) {
            const Next character = next();
            if (!belongs(character)) break;
            skip(character);
        }
        return at_ > begin;
    }
};

}  // namespace gptrain
