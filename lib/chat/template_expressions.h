// Parses the expressions of chat templates.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/template_cursor.h"
#include "chat/template_syntax.h"

namespace gptrain {

/// Expressions from the loosest operator to the tightest. They are at most 200 deep.
class TemplateExpressions : protected TemplateCursor {
public:
    using TemplateCursor::TemplateCursor;

protected:
    using Expr = TemplateExpr;
    using ExprPtr = std::unique_ptr<Expr>;

    /// An expression, or several with commas, which are a tuple.
    ExprPtr parse_tuple();
    ExprPtr parse_choice();
    ExprPtr parse_either();
    /// A call of a name, with its arguments.
    ExprPtr parse_named_call();
    /// The filters behind a block, "name(arguments) | name ...", whose input is no expression.
    ExprPtr parse_block_filters();

private:
    ExprPtr make(Expr::Kind kind, std::string name, std::vector<ExprPtr> parts,
                 std::vector<std::string> keywords = {}) const;
    template <class... Parts>
    ExprPtr join(Expr::Kind kind, std::string name, Parts... parts) const {
        std::vector<ExprPtr> all;
        (all.push_back(std::move(parts)), ...);
        return make(kind, std::move(name), std::move(all));
    }
    ExprPtr literal(TemplateValue value) const;
    ExprPtr parse_both();
    ExprPtr parse_not();
    ExprPtr parse_comparison();
    /// The operator's name; empty if there is none.
    std::string take_comparison();
    ExprPtr parse_sum();
    ExprPtr parse_concatenation();
    ExprPtr parse_product();
    ExprPtr parse_power();
    ExprPtr parse_unary(bool with_filters);
    ExprPtr parse_primary();
    ExprPtr parse_name();
    std::vector<ExprPtr> parse_list(std::string_view end);
    ExprPtr parse_dict();
    /// With the arguments in parentheses, if there are any, behind `parts`.
    ExprPtr parse_call(Expr::Kind kind, std::string name, std::vector<ExprPtr> parts);
    ExprPtr parse_postfix(ExprPtr value);
    ExprPtr parse_subscript(ExprPtr value);
    ExprPtr parse_filters(ExprPtr value);
    /// The one argument of a test may stand without parentheses.
    ExprPtr parse_test(std::vector<ExprPtr> parts);
};

}  // namespace gptrain
