#include <algorithm>

#include "chat/template_expressions.h"

namespace gptrain {
namespace {

using Node = TemplateNode;

/// Statements.
class Parser : TemplateExpressions {
public:
    using TemplateExpressions::TemplateExpressions;

    TemplateBody parse() {
        TemplateBody body = parse_body({});
        if (token().kind != Token::Kind::end) refuse("nothing to end here");
        return body;
    }

private:
    /// Parses up to a block that begins with one of `ends`; its name is then the current token.
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
        refuse("{% ", token().text.substr(0, 40), " %} is not supported in templates");
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
        Node made = node(Node::Kind::generation);
        take();
        expect_end(Token::Kind::close_block);
        made.bodies.push_back(parse_body({"endgeneration"}));
        take();
        expect_end(Token::Kind::close_block);
        return made;
    }

    std::int64_t loops_ = 0;
};

}  // namespace

TemplateBody parse_template(std::string_view text, const std::string& source) {
    return Parser(text, source).parse();
}

}  // namespace gptrain
