#include "chat/template_render.h"

#include <algorithm>
#include <span>

#include "chat/template_builtins.h"
#include "chat/template_functions.h"

namespace gptrain {
namespace {

using Expr = TemplateExpr;
using Node = TemplateNode;
using Value = TemplateValue;
using ValueKind = TemplateValue::Kind;

enum class Flow { onward, leave_loop, next_round };

class Renderer {
public:
    Renderer(TemplateRun& run, const TemplateVariables& variables,
             std::vector<TextRange>* generated)
        : run_(run), generated_(generated), scopes_{variables} {}

    std::string render(const TemplateBody& body) {
        std::string out;
        text_ = &out;
        run_body(body, out);
        return out;
    }

    Value value_of(const Expr& expr) { return evaluate(expr); }

private:
    // Statements.

    Flow run_body(const TemplateBody& body, std::string& out) {
        for (const Node& node : body) {
            const Flow flow = run_node(node, out);
            if (flow != Flow::onward) return flow;
        }
        return Flow::onward;
    }

    Flow run_node(const Node& node, std::string& out) {
        start(node.line);
        switch (node.kind) {
            case Node::Kind::text: print(node.text, out); break;
            case Node::Kind::output: print(printed(run_, evaluate(*node.expr)), out); break;
            case Node::Kind::branch: return run_branch(node, out);
            case Node::Kind::loop: return run_loop(node, out);
            case Node::Kind::set: set(node); break;
            case Node::Kind::set_attribute: set_attribute(node); break;
            case Node::Kind::leave: return Flow::leave_loop;
            case Node::Kind::next: return Flow::next_round;
            case Node::Kind::generation: return run_generation(node, out);
        }
        return Flow::onward;
    }

    Flow run_generation(const Node& node, std::string& out) {
        if (generated_ != nullptr && &out != text_)
            run_.fail("{% generation %} inside {% set %} does not say which text is learned");
        const std::size_t begin = out.size();
        const Flow flow = run_body(node.bodies[0], out);
        if (generated_ != nullptr) generated_->push_back({begin, out.size()});
        return flow;
    }

    void start(std::int64_t line) {
        run_.line = line;
        run_.count(1);
    }

    void print(std::string_view text, std::string& out) {
        run_.count_bytes(text.size());
        out += text;
    }

    Flow run_branch(const Node& node, std::string& out) {
        for (std::size_t i = 0; i < node.bodies.size(); ++i) {
            const auto& condition = node.conditions[i];
            if (condition == nullptr || is_true(evaluate(*condition)))
                return run_body(node.bodies[i], out);
        }
        return Flow::onward;
    }

    Flow run_loop(const Node& node, std::string& out) {
        const std::vector<Value> elements = loop_elements(node);
        if (elements.empty()) {
            return node.bodies.size() > 1 ? run_body(node.bodies[1], out) : Flow::onward;
        }
        for (std::size_t i = 0; i < elements.size(); ++i) {
            scopes_.emplace_back();
            assign(node.names, elements[i]);
            assign("loop", loop_value(elements, i));
            const Flow flow = run_body(node.bodies[0], out);
            scopes_.pop_back();
            if (flow == Flow::leave_loop) break;
        }
        return Flow::onward;
    }

    /// The elements of a loop: those that its condition, if any, accepts.
    std::vector<Value> loop_elements(const Node& node) {
        std::vector<Value> elements = elements_of(run_, evaluate(*node.expr));
        if (node.conditions[0] == nullptr) return elements;
        std::vector<Value> accepted;
        for (const Value& element : elements) {
            scopes_.emplace_back();
            assign(node.names, element);
            if (is_true(evaluate(*node.conditions[0]))) accepted.push_back(element);
            scopes_.pop_back();
        }
        return accepted;
    }

    Value loop_value(const std::vector<Value>& elements, std::size_t index) {
        run_.count(16);
        const auto at = static_cast<std::int64_t>(index);
        const std::int64_t count = std::ssize(elements);
        const Value before = index > 0 ? elements[index - 1] : undefined_value("loop.previtem");
        const Value after =
            index + 1 < elements.size() ? elements[index + 1] : undefined_value("loop.nextitem");
        return dict_value(run_,
                          {"index", "index0", "revindex", "revindex0", "first", "last", "length",
                           "previtem", "nextitem"},
                          {integer_value(at + 1), integer_value(at), integer_value(count - at),
                           integer_value(count - at - 1), boolean_value(at == 0),
                           boolean_value(at + 1 == count), integer_value(count), before, after});
    }

    void assign(const std::string& name, Value value) {
        TemplateVariables& scope = scopes_.back();
        const auto found = std::find_if(scope.begin(), scope.end(),
                                        [&](const auto& one) { return one.first == name; });
        if (found == scope.end()) {
            scope.emplace_back(name, std::move(value));
        } else {
            found->second = std::move(value);
        }
    }

    void assign(const std::vector<std::string>& names, const Value& value) {
        if (names.size() == 1) return assign(names[0], value);
        if (!value.is(ValueKind::list) || value.items->values.size() != names.size())
            run_.fail("a list of ", names.size(), " elements is needed for as many names");
        for (std::size_t i = 0; i < names.size(); ++i)
            assign(names[i], value.items->values[i]);
    }

    void set(const Node& node) {
        if (node.expr != nullptr) return assign(node.names, evaluate(*node.expr));
        std::string text;
        run_body(node.bodies[0], text);
        assign(node.names, string_value(std::move(text)));
    }

    void set_attribute(const Node& node) {
        const Value space = find(node.names[0]);
        if (!space.is(ValueKind::space)) run_.fail("'", node.names[0], "' is not a namespace");
        Value value = evaluate(*node.expr);
        if (value.is(ValueKind::space)) run_.fail("a namespace in a namespace is not supported");
        TemplateItems& items = *space.items;
        const auto found = std::find(items.keys.begin(), items.keys.end(), node.names[1]);
        if (found == items.keys.end()) {
            items.keys.push_back(node.names[1]);
            items.values.push_back(std::move(value));
        } else {
            items.values[static_cast<std::size_t>(found - items.keys.begin())] = std::move(value);
        }
    }

    // Expressions.

    Value find(const std::string& name) {
        for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
            run_.count(1);
            for (const auto& [key, value] : *scope)
                if (key == name) return value;
        }
        return undefined_value(name);
    }

    Value evaluate(const Expr& expr) {
        start(expr.line);
        switch (expr.kind) {
            case Expr::Kind::literal: return expr.value;
            case Expr::Kind::name: return find_name(expr.name);
            case Expr::Kind::list: return list_value(run_, evaluate_all(expr.parts));
            case Expr::Kind::dict: return make_dict(expr);
            case Expr::Kind::attribute: {
                const Value object = evaluate(*expr.parts[0]);
                return member_of(run_, object, string_value(expr.name));
            }
            case Expr::Kind::index: {
                const Value object = evaluate(*expr.parts[0]);
                return member_of(run_, object, evaluate(*expr.parts[1]));
            }
            case Expr::Kind::slice: return slice(expr);
            case Expr::Kind::call: return call(expr);
            case Expr::Kind::method: {
                const Value object = evaluate(*expr.parts[0]);
                return call_method(run_, expr.name, object, arguments_of(expr, 1));
            }
            case Expr::Kind::filter: {
                const Value input = evaluate(*expr.parts[0]);
                return apply_filter(run_, expr.name, input, arguments_of(expr, 1));
            }
            case Expr::Kind::test: {
                const Value value = evaluate(*expr.parts[0]);
                return boolean_value(apply_test(run_, expr.name, value, arguments_of(expr, 1)));
            }
            case Expr::Kind::operation: return expr.parts.size() == 1 ? unary(expr) : binary(expr);
            case Expr::Kind::both: {
                const Value left = evaluate(*expr.parts[0]);
                return is_true(left) ? evaluate(*expr.parts[1]) : left;
            }
            case Expr::Kind::either: {
                const Value left = evaluate(*expr.parts[0]);
                return is_true(left) ? left : evaluate(*expr.parts[1]);
            }
            case Expr::Kind::choice:
                if (is_true(evaluate(*expr.parts[1]))) return evaluate(*expr.parts[0]);
                return expr.parts[2] != nullptr ? evaluate(*expr.parts[2])
                                                : undefined_value("else");
        }
        return {};
    }

    /// Functions count as defined, although only calls use them.
    Value find_name(const std::string& name) {
        Value value = find(name);
        const bool function = name == "raise_exception" || name == "namespace" || name == "range";
        return value.is(ValueKind::undefined) && function ? boolean_value(true) : value;
    }

    std::vector<Value> evaluate_all(std::span<const std::unique_ptr<Expr>> exprs) {
        std::vector<Value> values;
        for (const auto& expr : exprs)
            values.push_back(evaluate(*expr));
        return values;
    }

    TemplateArguments arguments_of(const Expr& expr, std::size_t first) {
        TemplateArguments arguments;
        arguments.values = evaluate_all(std::span(expr.parts).subspan(first));
        arguments.keywords.assign(expr.keywords.begin() + static_cast<std::ptrdiff_t>(first),
                                  expr.keywords.end());
        run_.line = expr.line;
        return arguments;
    }

    Value call(const Expr& expr) { return call_function(run_, expr.name, arguments_of(expr, 0)); }

    Value make_dict(const Expr& expr) {
        std::vector<std::string> keys;
        std::vector<Value> values;
        for (std::size_t i = 0; i < expr.parts.size(); i += 2) {
            const Value key = evaluate(*expr.parts[i]);
            if (!key.is_string()) run_.fail("a dict whose key is ", kind_name(key));
            keys.emplace_back(key.string());
            values.push_back(evaluate(*expr.parts[i + 1]));
        }
        return dict_value(run_, std::move(keys), std::move(values));
    }

    Value slice(const Expr& expr) {
        const Value object = evaluate(*expr.parts[0]);
        if (object.is(ValueKind::undefined)) run_.fail("'", *object.text, "' is undefined");
        if (!object.is_string() && !object.is(ValueKind::list))
            run_.fail("a slice of ", kind_name(object), " is not supported");
        const std::vector<Value> elements = elements_of(run_, object);
        const std::int64_t size = std::ssize(elements);
        const std::int64_t step = bound(expr.parts[3], 1);
        if (step != 1 && step != -1) run_.fail("a slice in steps other than 1 and -1");
        // As in Python: counted from the end if negative, then cut to the list.
        const auto place = [&](const auto& part, std::int64_t missing) {
            if (part == nullptr) return missing;
            const std::int64_t at = bound(part, missing);
            return std::clamp(at < 0 ? at + size : at, std::int64_t{step < 0 ? -1 : 0},
                              step < 0 ? size - 1 : size);
        };
        const std::int64_t begin = place(expr.parts[1], step < 0 ? size - 1 : 0);
        const std::int64_t end = place(expr.parts[2], step < 0 ? -1 : size);
        std::vector<Value> chosen;
        for (std::int64_t i = begin; step < 0 ? i > end : i < end; i += step)
            chosen.push_back(elements[static_cast<std::size_t>(i)]);
        if (object.is(ValueKind::list)) return list_value(run_, std::move(chosen));
        std::string text;
        for (const Value& character : chosen)
            text += character.string();
        return string_value(std::move(text));
    }

    std::int64_t bound(const std::unique_ptr<Expr>& expr, std::int64_t missing) {
        if (expr == nullptr) return missing;
        const Value value = evaluate(*expr);
        if (value.is(ValueKind::none)) return missing;
        if (!value.is(ValueKind::integer)) run_.fail("a slice needs integers");
        return value.number;
    }

    Value unary(const Expr& expr) {
        const Value value = evaluate(*expr.parts[0]);
        if (expr.name == "not") return boolean_value(!is_true(value));
        if (!value.is(ValueKind::integer)) run_.fail("'-' of ", kind_name(value));
        return arithmetic("-", 0, value.number);
    }

    Value binary(const Expr& expr) {
        const Value a = evaluate(*expr.parts[0]);
        const Value b = evaluate(*expr.parts[1]);
        run_.line = expr.line;
        const std::string& name = expr.name;
        if (name == "==") return boolean_value(are_equal(run_, a, b));
        if (name == "!=") return boolean_value(!are_equal(run_, a, b));
        if (name == "in") return boolean_value(contains(run_, b, a));
        if (name == "not in") return boolean_value(!contains(run_, b, a));
        if (name == "~") return concatenated(printed(run_, a), printed(run_, b));
        if (a.is_string() && b.is_string() && name == "+")
            return concatenated(a.string(), b.string());
        if (a.is_string() && b.is_string() && (name[0] == '<' || name[0] == '>'))
            return boolean_value(ordered(name, a.string().compare(b.string())));
        const auto is_number = [](const Value& value) {
            return value.is(ValueKind::integer) || value.is(ValueKind::boolean);
        };
        if (!is_number(a) || !is_number(b)) {
            const Value& missing = a.is(ValueKind::undefined) ? a : b;
            if (missing.is(ValueKind::undefined)) run_.fail("'", *missing.text, "' is undefined");
            run_.fail("'", name, "' of ", kind_name(a), " and ", kind_name(b), " is not supported");
        }
        if (name[0] == '<' || name[0] == '>')
            return boolean_value(ordered(name, a.number < b.number ? -1 : a.number > b.number));
        return arithmetic(name, a.number, b.number);
    }

    Value concatenated(std::string_view a, std::string_view b) {
        run_.count_bytes(a.size() + b.size());
        return string_value(text(a, b));
    }

    static bool ordered(std::string_view name, int comparison) {
        if (name == "<") return comparison < 0;
        if (name == "<=") return comparison <= 0;
        return name == ">" ? comparison > 0 : comparison >= 0;
    }

    Value arithmetic(std::string_view name, std::int64_t a, std::int64_t b) {
        std::int64_t result = 0;
        bool fits = true;
        if (name == "+") {
            fits = !__builtin_add_overflow(a, b, &result);
        } else if (name == "-") {
            fits = !__builtin_sub_overflow(a, b, &result);
        } else if (name == "*") {
            fits = !__builtin_mul_overflow(a, b, &result);
        } else if (b == 0) {
            run_.fail("a division by 0");
        } else if (b == -1) {
            fits = !__builtin_sub_overflow(std::int64_t{0}, a, &result);
            if (name == "%") result = 0;
        } else {
            // Rounded down, as Python does.
            const bool down = a % b != 0 && (a < 0) != (b < 0);
            result = name == "%" ? a % b + (down ? b : 0) : a / b - (down ? 1 : 0);
        }
        if (!fits) run_.fail("a number that is too large");
        return integer_value(result);
    }

    TemplateRun& run_;
    std::vector<TextRange>* generated_;
    const std::string* text_ = nullptr;  ///< of the template, not of a {% set %}
    std::vector<TemplateVariables> scopes_;
};

}  // namespace

std::string render_template(TemplateRun& run, const TemplateBody& body,
                            const TemplateVariables& variables, std::vector<TextRange>* generated) {
    return Renderer(run, variables, generated).render(body);
}

TemplateValue evaluate_expression(TemplateRun& run, const TemplateExpr& expr,
                                  const TemplateVariables& variables) {
    return Renderer(run, variables, nullptr).value_of(expr);
}

}  // namespace gptrain
