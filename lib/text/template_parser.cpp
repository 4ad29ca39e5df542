#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/template_lexer.h"
#include "text/template_syntax.h"

namespace gptrain {
namespace {

using Token = TemplateToken;
using Expr = TemplateExpr;
using Node = TemplateNode;
using ExprPtr = std::unique_ptr<Expr>;

constexpr std::int64_t max_expr_depth = 200;
constexpr std::int64_t max_nesting = 64;

class Parser {
public:
    Parser(std::string_view text, const std::string& source)
        : source_(source), tokens_(template_tokens(text, source)) {}

    TemplateBody parse() {
        TemplateBody body = parse_body({});
        if (token().kind != Token::Kind::end) refuse("nothing to end here");
        return body;
    }

private:
    /// Counts the levels that the parser is deep in.
    class Level {
    public:
        explicit Level(Parser& parser) : parser_(parser) {
            if (++parser_.nesting_ > max_nesting)
                parser_.refuse("more than ", max_nesting, " levels of nesting");
        }
        ~Level() { --parser_.nesting_; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;

    private:
        Parser& parser_;
    };

    template <class... Parts>
    [[noreturn]] void refuse(const Parts&... parts) const {
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

    // Statements.

    /// Up to a block that begins with one of `ends`, whose name is the current token then.
    TemplateBody parse_body(const std::vector<std::string_view>& ends) {
        const Level level(*this);
        TemplateBody body;
        while (token().kind != Token::Kind::end) {
            if (token().kind == Token::Kind::open_block) {
                const bool is_end =
                    std::any_of(ends.begin(), ends.end(),
                                [&](std::string_view end) { return is_name(end, 1); });
                take();
                if (is_end) return body;
                body.push_back(parse_statement());
            } else {
                body.push_back(parse_text());
            }
        }
        if (!ends.empty()) refuse("expected '{% ", ends.back(), " %}', not ", shown());
        return body;
    }

    Node node(Node::Kind kind) const {
        Node made;
        made.kind = kind;
        made.line = token().line;
        return made;
    }

    Node parse_text() {
        Node made = node(Node::Kind::text);
        if (token().kind == Token::Kind::text) {
            made.text = take().text;
            return made;
        }
        take();  // {{
        made.kind = Node::Kind::output;
        made.expr = parse_tuple();
        expect_end(Token::Kind::close_output);
        return made;
    }

    Node parse_statement() {
        if (is_name("if")) return parse_if();
        if (is_name("for")) return parse_for();
        if (is_name("set")) return parse_set();
        if (is_name("generation")) return parse_generation();
        if (is_name("break") || is_name("continue")) {
            if (loops_ == 0) refuse(shown(), " outside of a loop");
            Node made = node(is_name("break") ? Node::Kind::leave : Node::Kind::next);
            take();
            expect_end(Token::Kind::close_block);
            return made;
        }
        refuse("{% ", token().text.substr(0, 40), " %} is not supported in chat templates");
    }

    Node parse_if() {
        Node made = node(Node::Kind::branch);
        take();
        made.conditions.push_back(parse_tuple());
        while (true) {
            expect_end(Token::Kind::close_block);
            made.bodies.push_back(parse_body({"elif", "else", "endif"}));
            if (accept_name("endif")) break;
            if (made.conditions.back() == nullptr) refuse("expected '{% endif %}', not ", shown());
            made.conditions.push_back(take().text == "elif" ? parse_tuple() : nullptr);
        }
        expect_end(Token::Kind::close_block);
        return made;
    }

    Node parse_for() {
        Node made = node(Node::Kind::loop);
        take();
        made.names = parse_targets();
        if (!accept_name("in")) refuse("expected 'in', not ", shown());
        made.expr = parse_either();
        made.conditions.push_back(accept_name("if") ? parse_choice() : nullptr);
        expect_end(Token::Kind::close_block);
        ++loops_;
        made.bodies.push_back(parse_body({"else", "endfor"}));
        --loops_;
        if (accept_name("else")) {
            expect_end(Token::Kind::close_block);
            made.bodies.push_back(parse_body({"endfor"}));
        }
        take();  // endfor
        expect_end(Token::Kind::close_block);
        return made;
    }

    std::vector<std::string> parse_targets() {
        std::vector<std::string> names = {expect_any_name()};
        while (accept(","))
            names.push_back(expect_any_name());
        return names;
    }

    Node parse_set() {
        Node made = node(Node::Kind::set);
        take();
        made.names = parse_targets();
        if (made.names.size() == 1 && accept(".")) {
            made.kind = Node::Kind::set_attribute;
            made.names.push_back(expect_any_name());
        }
        if (accept("=")) {
            made.expr = parse_tuple();
            expect_end(Token::Kind::close_block);
            return made;
        }
        if (made.kind != Node::Kind::set || made.names.size() > 1)
            refuse("expected '=', not ", shown());
        if (is_symbol("|")) refuse("filters of {% set %} blocks are not supported");
        expect_end(Token::Kind::close_block);
        made.bodies.push_back(parse_body({"endset"}));
        take();
        expect_end(Token::Kind::close_block);
        return made;
    }

    Node parse_generation() {
        Node made = node(Node::Kind::body);
        take();
        expect_end(Token::Kind::close_block);
        made.bodies.push_back(parse_body({"endgeneration"}));
        take();
        expect_end(Token::Kind::close_block);
        return made;
    }

    // Expressions, from the loosest operator to the tightest.

    ExprPtr make(Expr::Kind kind, std::string name, std::vector<ExprPtr> parts,
                 std::vector<std::string> keywords = {}) const {
        auto made = std::make_unique<Expr>();
        made->kind = kind;
        made->line = token().line;
        made->name = std::move(name);
        for (const ExprPtr& part : parts)
            if (part != nullptr) made->depth = std::max(made->depth, part->depth + 1);
        if (made->depth > max_expr_depth) refuse("an expression that is too long");
        made->parts = std::move(parts);
        made->keywords = std::move(keywords);
        return made;
    }
    template <class... Parts>
    ExprPtr join(Expr::Kind kind, std::string name, Parts... parts) const {
        std::vector<ExprPtr> all;
        (all.push_back(std::move(parts)), ...);
        return make(kind, std::move(name), std::move(all));
    }
    ExprPtr literal(TemplateValue value) const {
        ExprPtr made = make(Expr::Kind::literal, "", {});
        made->value = std::move(value);
        return made;
    }

    /// An expression, or several with commas, which are a list.
    ExprPtr parse_tuple() {
        ExprPtr first = parse_choice();
        if (!is_symbol(",")) return first;
        std::vector<ExprPtr> parts;
        parts.push_back(std::move(first));
        while (accept(","))
            parts.push_back(parse_choice());
        return make(Expr::Kind::list, "", std::move(parts));
    }

    ExprPtr parse_choice() {
        const Level level(*this);
        ExprPtr value = parse_either();
        while (accept_name("if")) {
            ExprPtr condition = parse_either();
            ExprPtr other = accept_name("else") ? parse_choice() : nullptr;
            value = join(Expr::Kind::choice, "", std::move(value), std::move(condition),
                         std::move(other));
        }
        return value;
    }

    ExprPtr parse_either() {
        ExprPtr left = parse_both();
        while (accept_name("or"))
            left = join(Expr::Kind::either, "", std::move(left), parse_both());
        return left;
    }

    ExprPtr parse_both() {
        ExprPtr left = parse_not();
        while (accept_name("and"))
            left = join(Expr::Kind::both, "", std::move(left), parse_not());
        return left;
    }

    ExprPtr parse_not() {
        if (!accept_name("not")) return parse_comparison();
        const Level level(*this);
        return join(Expr::Kind::operation, "not", parse_not());
    }

    ExprPtr parse_comparison() {
        ExprPtr left = parse_sum();
        std::string name = take_comparison();
        if (name.empty()) return left;
        left = join(Expr::Kind::operation, name, std::move(left), parse_sum());
        if (!take_comparison().empty()) refuse("chains of comparisons are not supported");
        return left;
    }

    /// The operator's name; empty if there is none.
    std::string take_comparison() {
        for (const std::string_view symbol : {"==", "!=", "<", "<=", ">", ">="})
            if (accept(symbol)) return std::string(symbol);
        if (accept_name("in")) return "in";
        if (!is_name("not") || !is_name("in", 1)) return "";
        take();
        take();
        return "not in";
    }

    ExprPtr parse_sum() {
        ExprPtr left = parse_concatenation();
        while (is_symbol("+") || is_symbol("-")) {
            std::string name = take().text;
            left = join(Expr::Kind::operation, std::move(name), std::move(left),
                        parse_concatenation());
        }
        return left;
    }

    ExprPtr parse_concatenation() {
        ExprPtr left = parse_product();
        while (accept("~"))
            left = join(Expr::Kind::operation, "~", std::move(left), parse_product());
        return left;
    }

    ExprPtr parse_product() {
        ExprPtr left = parse_unary(true);
        while (is_symbol("*") || is_symbol("//") || is_symbol("%")) {
            std::string name = take().text;
            left = join(Expr::Kind::operation, std::move(name), std::move(left), parse_unary(true));
        }
        if (is_symbol("/") || is_symbol("**"))
            refuse("the operator ", shown(), " is not supported");
        return left;
    }

    ExprPtr parse_unary(bool with_filters) {
        const Level level(*this);
        ExprPtr value;
        if (accept("-")) {
            value = join(Expr::Kind::operation, "negative", parse_unary(false));
        } else if (accept("+")) {
            value = parse_unary(false);
        } else {
            value = parse_primary();
        }
        value = parse_postfix(std::move(value));
        return with_filters ? parse_filters(std::move(value)) : std::move(value);
    }

    ExprPtr parse_primary() {
        if (token().kind == Token::Kind::name) return parse_name();
        if (token().kind == Token::Kind::integer)
            return literal(integer_value(parse_int(take().text).value()));
        if (token().kind == Token::Kind::string) {
            std::string value = take().text;
            while (token().kind == Token::Kind::string)
                value += take().text;
            return literal(string_value(std::move(value)));
        }
        if (accept("(")) {
            if (accept(")")) return make(Expr::Kind::list, "", {});
            ExprPtr inner = parse_tuple();
            expect(")");
            return inner;
        }
        if (accept("[")) return make(Expr::Kind::list, "", parse_list("]"));
        if (accept("{")) return parse_dict();
        refuse("expected an expression, not ", shown());
    }

    ExprPtr parse_name() {
        std::string name = take().text;
        if (name == "true" || name == "True") return literal(boolean_value(true));
        if (name == "false" || name == "False") return literal(boolean_value(false));
        if (name == "none" || name == "None") return literal(none_value());
        if (!is_symbol("(")) return make(Expr::Kind::name, std::move(name), {});
        return parse_call(Expr::Kind::call, std::move(name), {});
    }

    std::vector<ExprPtr> parse_list(std::string_view end) {
        std::vector<ExprPtr> parts;
        while (!accept(end)) {
            if (!parts.empty()) {
                expect(",");
                if (accept(end)) break;
            }
            parts.push_back(parse_choice());
        }
        return parts;
    }

    ExprPtr parse_dict() {
        std::vector<ExprPtr> parts;
        while (!accept("}")) {
            if (!parts.empty()) {
                expect(",");
                if (accept("}")) break;
            }
            parts.push_back(parse_choice());
            expect(":");
            parts.push_back(parse_choice());
        }
        return make(Expr::Kind::dict, "", std::move(parts));
    }

    /// With the arguments in parentheses, if there are any, behind `parts`.
    ExprPtr parse_call(Expr::Kind kind, std::string name, std::vector<ExprPtr> parts) {
        std::vector<std::string> keywords(parts.size());
        if (accept("(")) {
            for (bool first = true; !accept(")"); first = false) {
                if (!first) expect(",");
                if (!first && accept(")")) break;
                const bool has_keyword = token().kind == Token::Kind::name && is_symbol("=", 1);
                keywords.push_back(has_keyword ? take().text : "");
                if (has_keyword) take();
                parts.push_back(parse_choice());
            }
        }
        return make(kind, std::move(name), std::move(parts), std::move(keywords));
    }

    ExprPtr parse_postfix(ExprPtr value) {
        while (true) {
            if (accept(".")) {
                std::string name = token().kind == Token::Kind::integer ? "" : expect_any_name();
                if (name.empty()) refuse("expected a name, not ", shown());
                std::vector<ExprPtr> parts;
                parts.push_back(std::move(value));
                value = is_symbol("(")
                            ? parse_call(Expr::Kind::method, std::move(name), std::move(parts))
                            : make(Expr::Kind::attribute, std::move(name), std::move(parts));
            } else if (accept("[")) {
                value = parse_subscript(std::move(value));
            } else if (is_symbol("(")) {
                refuse("a call of something that is no function");
            } else {
                return value;
            }
        }
    }

    ExprPtr parse_subscript(ExprPtr value) {
        std::vector<ExprPtr> parts;
        parts.push_back(std::move(value));
        const auto parse_bound = [&] {
            parts.push_back(is_symbol(":") || is_symbol("]") ? nullptr : parse_choice());
        };
        parse_bound();
        if (accept("]")) {
            if (parts[1] == nullptr) refuse("expected an expression, not ']'");
            return make(Expr::Kind::index, "", std::move(parts));
        }
        expect(":");
        parse_bound();
        if (accept(":")) {
            parse_bound();
        } else {
            parts.push_back(nullptr);
        }
        expect("]");
        return make(Expr::Kind::slice, "", std::move(parts));
    }

    ExprPtr parse_filters(ExprPtr value) {
        while (true) {
            std::vector<ExprPtr> parts;
            if (accept("|")) {
                parts.push_back(std::move(value));
                value = parse_call(Expr::Kind::filter, expect_any_name(), std::move(parts));
            } else if (accept_name("is")) {
                const bool negated = accept_name("not");
                parts.push_back(std::move(value));
                value = parse_test(std::move(parts));
                if (negated) value = join(Expr::Kind::operation, "not", std::move(value));
            } else {
                return value;
            }
        }
    }

    /// The one argument of a test may stand without parentheses.
    ExprPtr parse_test(std::vector<ExprPtr> parts) {
        std::string name = expect_any_name();
        const bool has_word = token().kind == Token::Kind::string ||
                              token().kind == Token::Kind::integer || is_symbol("[") ||
                              (token().kind == Token::Kind::name && !is_name("else") &&
                               !is_name("or") && !is_name("and") && !is_name("if") &&
                               !is_name("is") && !is_name("not") && !is_name("in"));
        if (!has_word) return parse_call(Expr::Kind::test, std::move(name), std::move(parts));
        parts.push_back(parse_postfix(parse_primary()));
        return make(Expr::Kind::test, std::move(name), std::move(parts), {"", ""});
    }

    const std::string& source_;
    std::vector<Token> tokens_;
    std::size_t at_ = 0;
    std::int64_t nesting_ = 0;
    std::int64_t loops_ = 0;
};

}  // namespace

TemplateBody parse_template(std::string_view text, const std::string& source) {
    return Parser(text, source).parse();
}

}  // namespace gptrain
