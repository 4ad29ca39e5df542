#include <algorithm>
#include <utility>

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
        if (is_name("macro")) return parse_macro();
        if (is_name("call")) return parse_call_block();
        if (is_name("filter")) return parse_filter_block();
        if (is_name("with")) return parse_with();
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
        if (is_name("recursive")) refuse("recursive loops are not supported; use a macro");
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
        made.conditions.push_back(accept("|") ? parse_block_filters() : nullptr);
        parse_separate_block(made, "endset");
        return made;
    }

    Node parse_generation() {
        Node made = node(Node::Kind::generation);
        take();
        parse_block(made, "endgeneration");
        return made;
    }

    Node parse_macro() {
        Node made = node(Node::Kind::macro);
        take();
        made.text = expect_any_name();
        if (!is_symbol("(")) refuse("expected '(', not ", shown());
        parse_parameters(made);
        parse_separate_block(made, "endmacro");
        return made;
    }

    /// "(name, name=default, ...)", if it is there.
    void parse_parameters(Node& made) {
        if (!accept("(")) return;
        for (bool first = true; !accept(")"); first = false) {
            if (!first) expect(",");
            if (!first && accept(")")) return;
            made.names.push_back(expect_any_name());
            made.conditions.push_back(accept("=") ? parse_choice() : nullptr);
            if (made.conditions.back() == nullptr && made.names.size() > 1 &&
                made.conditions[made.names.size() - 2] != nullptr)
                refuse("a parameter without a default behind one that has it");
        }
    }

    Node parse_call_block() {
        Node made = node(Node::Kind::call_block);
        take();
        parse_parameters(made);
        made.expr = parse_named_call();
        parse_separate_block(made, "endcall");
        return made;
    }

    Node parse_filter_block() {
        Node made = node(Node::Kind::filter_block);
        take();
        made.expr = parse_block_filters();
        parse_separate_block(made, "endfilter");
        return made;
    }

    Node parse_with() {
        Node made = node(Node::Kind::with);
        take();
        while (token().kind != Token::Kind::close_block) {
            if (!made.names.empty()) expect(",");
            made.names.push_back(expect_any_name());
            expect("=");
            made.conditions.push_back(parse_choice());
        }
        parse_block(made, "endwith");
        return made;
    }

    /// The rest of a statement up to its end, and the body up to the statement `end`.
    void parse_block(Node& made, std::string_view end) {
        expect_end(Token::Kind::close_block);
        made.bodies.push_back(parse_body({end}));
        take();
        expect_end(Token::Kind::close_block);
    }

    /// The same for a body whose text is a value: it cannot leave a loop outside.
    void parse_separate_block(Node& made, std::string_view end) {
        const std::int64_t outside = std::exchange(loops_, 0);
        parse_block(made, end);
        loops_ = outside;
    }

    std::int64_t loops_ = 0;
};

}  // namespace

TemplateBody parse_template(std::string_view text, const std::string& source) {
    return Parser(text, source).parse();
}

}  // namespace gptrain
