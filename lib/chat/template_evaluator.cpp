#include "chat/template_evaluator.h"

#include <algorithm>
#include <array>

#include "chat/template_functions.h"
#include "chat/template_numbers.h"
#include "chat/template_text.h"

namespace gptrain {

using ValueKind = TemplateValue::Kind;

TemplateValue TemplateEvaluator::evaluate(const TemplateExpr& expr) {
    const TemplateRun::Level level(run_);
    run_.line = expr.line;
    run_.count(1);
    return value_of_kind(expr);
}

TemplateValue TemplateEvaluator::value_of_kind(const Expr& expr) {
    switch (expr.kind) {
        case Expr::Kind::literal: return expr.value;
        case Expr::Kind::name: return find_name(expr.name);
        case Expr::Kind::list: return list_value(run_, evaluate_all(expr.parts));
        case Expr::Kind::tuple:
            return list_value(run_, evaluate_all(expr.parts), TemplateItems::Form::tuple);
        case Expr::Kind::dict: return make_dict(expr);
        case Expr::Kind::attribute: return attribute_of(run_, evaluate(*expr.parts[0]), expr.name);
        case Expr::Kind::index: {
            const Value object = evaluate(*expr.parts[0]);
            return member_of(run_, object, evaluate(*expr.parts[1]));
        }
        case Expr::Kind::slice: return slice(expr);
        case Expr::Kind::call: return call(expr, nullptr);
        case Expr::Kind::method: return method(expr);
        case Expr::Kind::filter: return filter(expr);
        case Expr::Kind::test: return test(expr);
        case Expr::Kind::operation: return expr.parts.size() == 1 ? unary(expr) : binary(expr);
        case Expr::Kind::text: return joined_text(expr);
        case Expr::Kind::comparison: return compare(expr);
        case Expr::Kind::both:
        case Expr::Kind::either: {
            Value left = evaluate(*expr.parts[0]);
            const bool decided = is_true(left) == (expr.kind == Expr::Kind::either);
            return decided ? left : evaluate(*expr.parts[1]);
        }
        case Expr::Kind::choice: return choice(expr);
    }
    return {};
}

std::string TemplateEvaluator::call_macro(const Value&, const TemplateArguments&, const Value*) {
    run_.fail("an expression alone has no macros");
}

/// Functions count as defined where they are not called, too.
TemplateValue TemplateEvaluator::find_name(const std::string& name) {
    Value value = scopes_.find(run_, name);
    return value.is(ValueKind::undefined) && is_function(name) ? callable_value() : value;
}

std::vector<TemplateValue> TemplateEvaluator::evaluate_all(
    std::span<const std::unique_ptr<Expr>> exprs) {
    std::vector<Value> values;
    for (const auto& expr : exprs)
        values.push_back(evaluate(*expr));
    return values;
}

TemplateArguments TemplateEvaluator::arguments_of(const Expr& expr, std::size_t first) {
    TemplateArguments arguments;
    arguments.values = evaluate_all(std::span(expr.parts).subspan(first));
    arguments.keywords.assign(expr.keywords.begin() + static_cast<std::ptrdiff_t>(first),
                              expr.keywords.end());
    run_.line = expr.line;
    return arguments;
}

TemplateValue TemplateEvaluator::call(const Expr& expr, const Value* caller) {
    const Value function = scopes_.find(run_, expr.name);
    const TemplateArguments arguments = arguments_of(expr, 0);
    if (function.macro != nullptr) return string_value(call_macro(function, arguments, caller));
    if (caller != nullptr) run_.fail("{% call %} needs a macro, and '", expr.name, "' is none");
    if (!function.is(ValueKind::undefined))
        run_.fail("'", expr.name, "' is ", kind_name(function), ", which cannot be called");
    return call_function(run_, expr.name, arguments);
}

TemplateValue TemplateEvaluator::method(const Expr& expr) {
    const Value object = evaluate(*expr.parts[0]);
    return call_method(run_, expr.name, object, arguments_of(expr, 1));
}

TemplateValue TemplateEvaluator::filter(const Expr& expr) {
    const Value input = evaluate(*expr.parts[0]);
    return apply_filter(run_, expr.name, input, arguments_of(expr, 1));
}

TemplateValue TemplateEvaluator::filtered(const Expr& expr, const Value& input) {
    const bool first = expr.parts[0] == nullptr;
    const Value inner = first ? input : filtered(*expr.parts[0], input);
    return apply_filter(run_, expr.name, inner, arguments_of(expr, 1));
}

TemplateValue TemplateEvaluator::test(const Expr& expr) {
    const Value value = evaluate(*expr.parts[0]);
    return boolean_value(apply_test(run_, expr.name, value, arguments_of(expr, 1)));
}

TemplateValue TemplateEvaluator::make_dict(const Expr& expr) {
    TemplateItems items;
    for (std::size_t i = 0; i < expr.parts.size(); i += 2) {
        const Value key = evaluate(*expr.parts[i]);
        if (!key.is_string() && !key.is_number() && !key.is(ValueKind::none))
            run_.fail("a dict whose key is ", kind_name(key));
        run_.count(std::ssize(items.keys));
        items.put(key, evaluate(*expr.parts[i + 1]));
    }
    return dict_value(run_, std::move(items.keys), std::move(items.values));
}

TemplateValue TemplateEvaluator::slice(const Expr& expr) {
    const Value object = evaluate(*expr.parts[0]);
    std::array<Value, 3> bounds;
    std::array<const Value*, 3> given{};
    for (std::size_t i = 0; i < bounds.size(); ++i) {
        if (expr.parts[i + 1] == nullptr) continue;
        bounds[i] = evaluate(*expr.parts[i + 1]);
        given[i] = &bounds[i];
    }
    return slice_of(run_, object, given[0], given[1], given[2]);
}

TemplateValue TemplateEvaluator::choice(const Expr& expr) {
    if (is_true(evaluate(*expr.parts[1]))) return evaluate(*expr.parts[0]);
    return expr.parts[2] != nullptr ? evaluate(*expr.parts[2]) : undefined_value("else");
}

TemplateValue TemplateEvaluator::unary(const Expr& expr) {
    const Value value = evaluate(*expr.parts[0]);
    if (expr.name == "not") return boolean_value(!is_true(value));
    const bool negative = expr.name == "negative";
    if (!value.is_number()) run_.fail(negative ? "'-' of " : "'+' of ", kind_name(value));
    if (value.is(ValueKind::real)) return real_value(negative ? -value.real : value.real);
    return arithmetic(run_, negative ? "-" : "+", integer_value(0), value);
}

TemplateValue TemplateEvaluator::binary(const Expr& expr) {
    const Value a = evaluate(*expr.parts[0]);
    const Value b = evaluate(*expr.parts[1]);
    run_.line = expr.line;
    const std::string& name = expr.name;
    if (a.is_number() && b.is_number()) return arithmetic(run_, name, a, b);
    for (const Value* value : {&a, &b})
        if (value->is(ValueKind::undefined)) run_.fail("'", *value->text, "' is undefined");
    if (name == "+" && a.kind == b.kind) return sum(a, b);
    if (name == "*" && b.is_whole()) return repeated(a, b.number);
    if (name == "*" && a.is_whole()) return repeated(b, a.number);
    run_.fail("'", name, "' of ", kind_name(a), " and ", kind_name(b), " is not supported");
}

TemplateValue TemplateEvaluator::joined_text(const Expr& expr) {
    std::string all;
    for (const auto& part : expr.parts) {
        const std::string text = printed(run_, evaluate(*part));
        run_.count_bytes(text.size());
        all += text;
    }
    return string_value(std::move(all));
}

/// Of two strings or two lists. A string that is marked as safe escapes the other one.
TemplateValue TemplateEvaluator::sum(const Value& a, const Value& b) {
    if (a.is_string()) {
        const bool safe = a.number == 1 || b.number == 1;
        if (!safe) return concatenated(a.string(), b.string());
        Value joined =
            concatenated(a.number == 1 ? std::string(a.string()) : html_text(a.string()),
                         b.number == 1 ? std::string(b.string()) : html_text(b.string()));
        joined.number = 1;
        return joined;
    }
    if (!a.is(ValueKind::list) || a.items->form != b.items->form ||
        a.items->form == TemplateItems::Form::lazy)
        run_.fail("'+' of ", kind_name(a), " and ", kind_name(b), " is not supported");
    std::vector<Value> values = a.items->values;
    values.insert(values.end(), b.items->values.begin(), b.items->values.end());
    run_.count(16 * std::ssize(values));
    return list_value(run_, std::move(values), a.items->form);
}

/// A string or a list, several times.
TemplateValue TemplateEvaluator::repeated(const Value& value, std::int64_t times) {
    if (value.is_string()) {
        std::string all;
        for (std::int64_t i = 0; i < times; ++i) {
            run_.count_bytes(value.text->size());
            all += value.string();
        }
        return string_value(std::move(all));
    }
    if (!value.is(ValueKind::list) || value.items->form == TemplateItems::Form::lazy)
        run_.fail("'*' of ", kind_name(value), " and a number is not supported");
    std::vector<Value> all;
    for (std::int64_t i = 0; i < times; ++i) {
        run_.count(16 * std::ssize(value.items->values) + 1);
        all.insert(all.end(), value.items->values.begin(), value.items->values.end());
    }
    return list_value(run_, std::move(all), value.items->form);
}

TemplateValue TemplateEvaluator::concatenated(std::string_view a, std::string_view b) {
    run_.count_bytes(a.size() + b.size());
    return string_value(text(a, b));
}

/// Each operator compares two neighbours; the first that does not hold ends it.
TemplateValue TemplateEvaluator::compare(const Expr& expr) {
    Value left = evaluate(*expr.parts[0]);
    for (std::size_t i = 1; i < expr.parts.size(); ++i) {
        Value right = evaluate(*expr.parts[i]);
        run_.line = expr.line;
        if (!holds(expr.keywords[i], left, right)) return boolean_value(false);
        left = std::move(right);
    }
    return boolean_value(true);
}

bool TemplateEvaluator::holds(std::string_view name, const Value& a, const Value& b) {
    if (name == "==") return are_equal(run_, a, b);
    if (name == "!=") return !are_equal(run_, a, b);
    if (name == "in") return contains(run_, b, a);
    if (name == "not in") return !contains(run_, b, a);
    const int order = order_of(run_, a, b);
    if (name == "<") return order < 0;
    if (name == "<=") return order <= 0;
    return name == ">" ? order > 0 : order >= 0;
}

}  // namespace gptrain
