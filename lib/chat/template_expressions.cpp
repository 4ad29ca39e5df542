#include "chat/template_expressions.h"

#include <algorithm>

namespace gptrain {
namespace {

using ExprPtr = std::unique_ptr<TemplateExpr>;

constexpr std::int64_t max_expr_depth = 200;

}  // namespace

ExprPtr TemplateExpressions::make(Expr::Kind kind, std::string name, std::vector<ExprPtr> parts,
                                  std::vector<std::string> keywords) const {
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

ExprPtr TemplateExpressions::literal(TemplateValue value) const {
    ExprPtr made = make(Expr::Kind::literal, "", {});
    made->value = std::move(value);
    return made;
}

ExprPtr TemplateExpressions::parse_tuple() {
    ExprPtr first = parse_choice();
    if (!is_symbol(",")) return first;
    std::vector<ExprPtr> parts;
    parts.push_back(std::move(first));
    while (accept(",")) {
        const bool ends = token().kind == Token::Kind::close_output ||
                          token().kind == Token::Kind::close_block || is_symbol(")");
        if (ends) break;
        parts.push_back(parse_choice());
    }
    return make(Expr::Kind::tuple, "", std::move(parts));
}

ExprPtr TemplateExpressions::parse_named_call() {
    std::string name = expect_any_name();
    if (!is_symbol("(")) refuse("expected a call, not ", shown());
    return parse_call(Expr::Kind::call, std::move(name), {});
}

ExprPtr TemplateExpressions::parse_block_filters() {
    std::vector<ExprPtr> parts;
    parts.push_back(nullptr);
    return parse_filters(parse_call(Expr::Kind::filter, expect_any_name(), std::move(parts)));
}

ExprPtr TemplateExpressions::parse_choice() {
    const Level level(*this);
    ExprPtr value = parse_either();
    while (accept_name("if")) {
        ExprPtr condition = parse_either();
        ExprPtr other = accept_name("else") ? parse_choice() : nullptr;
        value =
            join(Expr::Kind::choice, "", std::move(value), std::move(condition), std::move(other));
    }
    return value;
}

ExprPtr TemplateExpressions::parse_either() {
    ExprPtr left = parse_both();
    while (accept_name("or"))
        left = join(Expr::Kind::either, "", std::move(left), parse_both());
    return left;
}

ExprPtr TemplateExpressions::parse_both() {
    ExprPtr left = parse_not();
    while (accept_name("and"))
        left = join(Expr::Kind::both, "", std::move(left), parse_not());
    return left;
}

ExprPtr TemplateExpressions::parse_not() {
    if (!accept_name("not")) return parse_comparison();
    const Level level(*this);
    return join(Expr::Kind::operation, "not", parse_not());
}

ExprPtr TemplateExpressions::parse_comparison() {
    std::vector<ExprPtr> parts;
    parts.push_back(parse_sum());
    std::vector<std::string> operators(1);
    for (std::string name = take_comparison(); !name.empty(); name = take_comparison()) {
        operators.push_back(std::move(name));
        parts.push_back(parse_sum());
    }
    if (parts.size() == 1) return std::move(parts.front());
    return make(Expr::Kind::comparison, "", std::move(parts), std::move(operators));
}

std::string TemplateExpressions::take_comparison() {
    for (const std::string_view symbol : {"==", "!=", "<", "<=", ">", ">="})
        if (accept(symbol)) return std::string(symbol);
    if (accept_name("in")) return "in";
    if (!is_name("not") || !is_name("in", 1)) return "";
    take();
    take();
    return "not in";
}

ExprPtr TemplateExpressions::parse_sum() {
    ExprPtr left = parse_concatenation();
    while (is_symbol("+") || is_symbol("-")) {
        std::string name = take().text;
        left = join(Expr::Kind::operation, std::move(name), std::move(left), parse_concatenation());
    }
    return left;
}

ExprPtr TemplateExpressions::parse_concatenation() {
    std::vector<ExprPtr> parts;
    do {
        parts.push_back(parse_product());
    } while (accept("~"));
    if (parts.size() == 1) return std::move(parts.front());
    return make(Expr::Kind::text, "", std::move(parts));
}

ExprPtr TemplateExpressions::parse_product() {
    ExprPtr left = parse_power();
    while (is_symbol("*") || is_symbol("/") || is_symbol("//") || is_symbol("%")) {
        std::string name = take().text;
        left = join(Expr::Kind::operation, std::move(name), std::move(left), parse_power());
    }
    return left;
}

ExprPtr TemplateExpressions::parse_power() {
    ExprPtr left = parse_unary(true);
    while (accept("**"))
        left = join(Expr::Kind::operation, "**", std::move(left), parse_unary(true));
    return left;
}

ExprPtr TemplateExpressions::parse_unary(bool with_filters) {
    const Level level(*this);
    ExprPtr value;
    if (accept("-")) {
        value = join(Expr::Kind::operation, "negative", parse_unary(false));
    } else if (accept("+")) {
        value = join(Expr::Kind::operation, "positive", parse_unary(false));
    } else {
        value = parse_primary();
    }
    value = parse_postfix(std::move(value));
    return with_filters ? parse_filters(std::move(value)) : std::move(value);
}

ExprPtr TemplateExpressions::parse_primary() {
    if (token().kind == Token::Kind::name) return parse_name();
    if (token().kind == Token::Kind::integer)
        return literal(integer_value(parse_int(take().text).value()));
    if (token().kind == Token::Kind::real)
        return literal(real_value(parse_double(take().text).value()));
    if (token().kind == Token::Kind::string) {
        std::string value = take().text;
        while (token().kind == Token::Kind::string)
            value += take().text;
        return literal(string_value(std::move(value)));
    }
    if (accept("(")) {
        if (accept(")")) return make(Expr::Kind::tuple, "", {});
        ExprPtr inner = parse_tuple();
        expect(")");
        return inner;
    }
    if (accept("[")) return make(Expr::Kind::list, "", parse_list("]"));
    if (accept("{")) return parse_dict();
    refuse("expected an expression, not ", shown());
}

ExprPtr TemplateExpressions::parse_name() {
    std::string name = take().text;
    if (name == "true" || name == "True") return literal(boolean_value(true));
    if (name == "false" || name == "False") return literal(boolean_value(false));
    if (name == "none" || name == "None") return literal(none_value());
    if (!is_symbol("(")) return make(Expr::Kind::name, std::move(name), {});
    return parse_call(Expr::Kind::call, std::move(name), {});
}

std::vector<ExprPtr> TemplateExpressions::parse_list(std::string_view end) {
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

ExprPtr TemplateExpressions::parse_dict() {
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

ExprPtr TemplateExpressions::parse_call(Expr::Kind kind, std::string name,
                                        std::vector<ExprPtr> parts) {
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

ExprPtr TemplateExpressions::parse_postfix(ExprPtr value) {
    while (true) {
        if (accept(".")) {
            std::vector<ExprPtr> parts;
            parts.push_back(std::move(value));
            if (token().kind == Token::Kind::integer) {
                parts.push_back(literal(integer_value(parse_int(take().text).value())));
                value = make(Expr::Kind::index, "", std::move(parts));
                continue;
            }
            std::string name = expect_any_name();
            value = is_symbol("(")
                        ? parse_call(Expr::Kind::method, std::move(name), std::move(parts))
                        : make(Expr::Kind::attribute, std::move(name), std::move(parts));
        } else if (accept("[")) {
            value = parse_subscript(std::move(value));
        } else if (is_symbol("(")) {
            refuse("a call of something that is not a function");
        } else {
            return value;
        }
    }
}

ExprPtr TemplateExpressions::parse_subscript(ExprPtr value) {
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

ExprPtr TemplateExpressions::parse_filters(ExprPtr value) {
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

ExprPtr TemplateExpressions::parse_test(std::vector<ExprPtr> parts) {
    std::string name = expect_any_name();
    const bool has_word =
        token().kind == Token::Kind::string || token().kind == Token::Kind::integer ||
        token().kind == Token::Kind::real || is_symbol("[") || is_symbol("{") ||
        (token().kind == Token::Kind::name && !is_name("else") && !is_name("or") &&
         !is_name("and") && !is_name("if") && !is_name("is") && !is_name("not") && !is_name("in"));
    if (!has_word) return parse_call(Expr::Kind::test, std::move(name), std::move(parts));
    parts.push_back(parse_postfix(parse_primary()));
    return make(Expr::Kind::test, std::move(name), std::move(parts), {"", ""});
}

}  // namespace gptrain
