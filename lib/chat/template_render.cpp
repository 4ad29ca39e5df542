#include "chat/template_render.h"

#include <algorithm>

#include "chat/template_evaluator.h"
#include "chat/template_functions.h"
#include "chat/template_text.h"

namespace gptrain {
namespace {

using Node = TemplateNode;
using ValueKind = TemplateValue::Kind;

enum class Flow { onward, leave_loop, next_round };

/// Runs statements.
class Renderer : public TemplateEvaluator {
public:
    Renderer(TemplateRun& run, const TemplateVariables& variables,
             std::vector<TextRange>* generated)
        : TemplateEvaluator(run, variables), generated_(generated) {}

    std::string render(const TemplateBody& body) {
        std::string out;
        text_ = &out;
        run_body(body, out);
        return out;
    }

private:
    Flow run_body(const TemplateBody& body, std::string& out) {
        const TemplateRun::Level level(run_);
        for (const Node& node : body) {
            const Flow flow = run_node(node, out);
            if (flow != Flow::onward) return flow;
        }
        return Flow::onward;
    }

    Flow run_node(const Node& node, std::string& out) {
        run_.line = node.line;
        run_.count(1);
        switch (node.kind) {
            case Node::Kind::text: print(node.text, out); break;
            case Node::Kind::output: print(printed(run_, evaluate(*node.expr)), out); break;
            case Node::Kind::branch: return run_branch(node, out);
            case Node::Kind::loop: return run_loop(node, out);
            case Node::Kind::set: set(node); break;
            case Node::Kind::set_attribute: set_attribute(node); break;
            case Node::Kind::with: return run_with(node, out);
            case Node::Kind::macro: define_macro(node); break;
            case Node::Kind::call_block: run_call_block(node, out); break;
            case Node::Kind::filter_block: run_filter_block(node, out); break;
            case Node::Kind::leave: return Flow::leave_loop;
            case Node::Kind::next: return Flow::next_round;
            case Node::Kind::generation: return run_generation(node, out);
        }
        return Flow::onward;
    }

    Flow run_generation(const Node& node, std::string& out) {
        if (generated_ != nullptr && &out != text_)
            run_.fail(
                "{% generation %} inside a macro or {% set %} does not say which text is "
                "learned");
        const std::size_t begin = out.size();
        const Flow flow = run_body(node.bodies[0], out);
        if (generated_ != nullptr) generated_->push_back({begin, out.size()});
        return flow;
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
            scopes_.enter();
            assign(node.names, elements[i]);
            scopes_.assign("loop", loop_value(elements, i));
            const Flow flow = run_body(node.bodies[0], out);
            scopes_.leave();
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
            scopes_.enter();
            assign(node.names, element);
            if (is_true(evaluate(*node.conditions[0]))) accepted.push_back(element);
            scopes_.leave();
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
        static const std::vector<Value> names =
            string_values({"index", "index0", "revindex", "revindex0", "first", "last", "length",
                           "previtem", "nextitem"});
        return dict_value(run_, names,
                          {integer_value(at + 1), integer_value(at), integer_value(count - at),
                           integer_value(count - at - 1), boolean_value(at == 0),
                           boolean_value(at + 1 == count), integer_value(count), before, after});
    }

    void assign(const std::vector<std::string>& names, const Value& value) {
        if (names.size() == 1) return scopes_.assign(names[0], value);
        const std::vector<Value> values = elements_of(run_, value);
        if (values.size() != names.size())
            run_.fail("a list of ", names.size(), " elements is needed for as many names");
        for (std::size_t i = 0; i < names.size(); ++i)
            scopes_.assign(names[i], values[i]);
    }

    /// The text of a body whose variables end with it.
    std::string text_of(const TemplateBody& body) {
        scopes_.enter();
        std::string text;
        run_body(body, text);
        scopes_.leave();
        run_.count_bytes(text.size());
        return text;
    }

    void set(const Node& node) {
        if (node.expr != nullptr) return assign(node.names, evaluate(*node.expr));
        Value text = string_value(text_of(node.bodies[0]));
        if (node.conditions[0] != nullptr) text = filtered(*node.conditions[0], text);
        assign(node.names, text);
    }

    void set_attribute(const Node& node) {
        const Value space = scopes_.find(run_, node.names[0]);
        if (!space.is(ValueKind::space)) run_.fail("'", node.names[0], "' is not a namespace");
        Value value = evaluate(*node.expr);
        if (value.is(ValueKind::space) || value.is(ValueKind::callable))
            run_.fail(kind_name(value), " in a namespace is not supported");
        space.items->put(string_value(node.names[1]), std::move(value));
    }

    Flow run_with(const Node& node, std::string& out) {
        std::vector<Value> values;
        for (const auto& expr : node.conditions)
            values.push_back(evaluate(*expr));
        scopes_.enter();
        for (std::size_t i = 0; i < values.size(); ++i)
            scopes_.assign(node.names[i], std::move(values[i]));
        const Flow flow = run_body(node.bodies[0], out);
        scopes_.leave();
        return flow;
    }

    void define_macro(const Node& node) {
        scopes_.assign(node.text, callable_value(&node, scopes_.current()));
    }

    void run_call_block(const Node& node, std::string& out) {
        const Value caller = callable_value(&node, scopes_.current());
        print(printed(run_, call(*node.expr, &caller)), out);
    }

    void run_filter_block(const Node& node, std::string& out) {
        const Value text = string_value(text_of(node.bodies[0]));
        print(printed(run_, filtered(*node.expr, text)), out);
    }

    std::string call_macro(const Value& macro, const TemplateArguments& arguments,
                           const Value* caller) override {
        const Node& node = *macro.macro;
        const std::vector<const Value*> given = parameters_of(node, arguments);
        scopes_.enter(macro.number);
        for (std::size_t i = 0; i < given.size(); ++i) {
            Value value = undefined_value(node.names[i]);
            if (given[i] != nullptr) {
                value = *given[i];
            } else if (node.conditions[i] != nullptr) {
                value = evaluate(*node.conditions[i]);
            }
            scopes_.assign(node.names[i], std::move(value));
        }
        if (caller != nullptr) scopes_.assign("caller", *caller);
        std::string text;
        run_body(node.bodies[0], text);
        scopes_.leave();
        run_.count_bytes(text.size());
        return text;
    }

    /// The argument of each parameter of a macro, null if there is none.
    std::vector<const Value*> parameters_of(const Node& macro, const TemplateArguments& arguments) {
        std::vector<const Value*> given(macro.names.size(), nullptr);
        for (std::size_t i = 0; i < arguments.values.size(); ++i) {
            const std::string& keyword = arguments.keywords[i];
            const auto named = std::find(macro.names.begin(), macro.names.end(), keyword);
            if (!keyword.empty() && named == macro.names.end())
                run_.fail("the macro '", macro.text, "' has no parameter '", keyword, "'");
            const std::size_t at =
                keyword.empty() ? i : static_cast<std::size_t>(named - macro.names.begin());
            if (at >= given.size())
                run_.fail("the macro '", macro.text, "' takes at most ", given.size(),
                          " arguments");
            given[at] = &arguments.values[i];
        }
        return given;
    }

    std::vector<TextRange>* generated_;
    const std::string* text_ = nullptr;  ///< of the template, not of a {% set %}
};

}  // namespace

std::string render_template(TemplateRun& run, const TemplateBody& body,
                            const TemplateVariables& variables, std::vector<TextRange>* generated) {
    return Renderer(run, variables, generated).render(body);
}

TemplateValue evaluate_expression(TemplateRun& run, const TemplateExpr& expr,
                                  const TemplateVariables& variables) {
    return TemplateEvaluator(run, variables).evaluate(expr);
}

}  // namespace gptrain
