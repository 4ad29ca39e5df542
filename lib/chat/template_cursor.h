// The place of a parser in the tokens of a template.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "chat/template_lexer.h"

namespace gptrain {

/// Reads tokens one after another. A fault in the text is an Error (bad_input) that names `source`
/// and the line.
class TemplateCursor {
public:
    using Token = TemplateToken;

    TemplateCursor(std::string_view text, const std::string& source)
        : source_(source), tokens_(template_tokens(text, source)) {}

protected:
    /// Counts the levels that the parser is deep in.
    class Level {
    public:
        explicit Level(TemplateCursor& cursor) : cursor_(cursor) {
            if (++cursor_.nesting_ > max_nesting)
                cursor_.refuse("more than ", max_nesting, " levels of nesting");
        }
        ~Level() { --cursor_.nesting_; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;

    private:
        TemplateCursor& cursor_;
    };

    [[noreturn]] void refuse(const auto&... parts) const {
        fail(ExitCode::bad_input, source_, ": line ", token().line, ": ", parts...);
    }

    const Token& token(std::size_t ahead = 0) const {
        return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
    }
    const Token& take() {
        const Token& taken = token();
        if (at_ + 1 < tokens_.size()) ++at_;
        return taken;
    }
    bool is_name(std::string_view word, std::size_t ahead = 0) const {
        return token(ahead).kind == Token::Kind::name && token(ahead).text == word;
    }
    bool is_symbol(std::string_view symbol, std::size_t ahead = 0) const {
        return token(ahead).kind == Token::Kind::symbol && token(ahead).text == symbol;
    }
    bool accept_name(std::string_view word) {
        if (!is_name(word)) return false;
        take();
        return true;
    }
    bool accept(std::string_view symbol) {
        if (!is_symbol(symbol)) return false;
        take();
        return true;
    }
    void expect(std::string_view symbol) {
        if (!accept(symbol)) refuse("expected '", symbol, "', not ", shown());
    }
    std::string expect_any_name() {
        if (token().kind != Token::Kind::name) refuse("expected a name, not ", shown());
        return take().text;
    }
    void expect_end(Token::Kind kind) {
        if (token().kind != kind) refuse("expected the end of the block, not ", shown());
        take();
    }
    /// The current token, for messages.
    std::string shown() const {
        switch (token().kind) {
            case Token::Kind::text: return "text";
            case Token::Kind::string: return "a string";
            case Token::Kind::close_output: return "'}}'";
            case Token::Kind::close_block: return "'%}'";
            case Token::Kind::end: return "the end of the template";
            default: return text("'", token().text.substr(0, 40), "'");
        }
    }

private:
    static constexpr std::int64_t max_nesting = 64;

    const std::string& source_;
    std::vector<Token> tokens_;
    std::size_t at_ = 0;
    std::int64_t nesting_ = 0;
};

}  // namespace gptrain
