// The values of expressions in templates.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/template_builtins.h"
#include "chat/template_scopes.h"
#include "chat/template_syntax.h"

namespace gptrain {

/// Evaluates expressions. Macros are for a class that can run statements.
class TemplateEvaluator {
public:
    TemplateEvaluator(TemplateRun& run, const TemplateVariables& variables)
        : run_(run), scopes_(variables) {}
    virtual ~TemplateEvaluator() = default;

    TemplateValue evaluate(const TemplateExpr& expr);

protected:
    using Expr = TemplateExpr;
    using Value = TemplateValue;

    /// The text of a macro. `caller`: the macro of a {% call %} block, or null.
    virtual std::string call_macro(const Value& macro, const TemplateArguments& arguments,
                                   const Value* caller);
    /// The value of a call, with a macro for {% call %}.
    Value call(const Expr& expr, const Value* caller);
    /// The value of the filters behind a block whose text is `input`.
    Value filtered(const Expr& expr, const Value& input);

    TemplateRun& run_;
    TemplateScopes scopes_;

private:
    Value value_of_kind(const Expr& expr);
    Value find_name(const std::string& name);
    std::vector<Value> evaluate_all(std::span<const std::unique_ptr<Expr>> exprs);
    TemplateArguments arguments_of(const Expr& expr, std::size_t first);
    Value method(const Expr& expr);
    Value filter(const Expr& expr);
    Value test(const Expr& expr);
    Value make_dict(const Expr& expr);
    Value slice(const Expr& expr);
    Value choice(const Expr& expr);
    Value unary(const Expr& expr);
    Value binary(const Expr& expr);
    Value joined_text(const Expr& expr);
    Value compare(const Expr& expr);
    bool holds(std::string_view name, const Value& a, const Value& b);
    Value sum(const Value& a, const Value& b);
    Value repeated(const Value& value, std::int64_t times);
    Value concatenated(std::string_view a, std::string_view b);
};

}  // namespace gptrain
