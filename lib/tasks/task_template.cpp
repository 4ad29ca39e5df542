#include "tasks/task_template.h"

#include <utility>

#include "base/error.h"
#include "chat/template_text.h"

namespace gptrain {

TaskTemplate::TaskTemplate(std::string_view text, std::string source) : source_(std::move(source)) {
    try {
        body_ = parse_template(text, source_);
    } catch (const Error& error) {
        throw Error(ExitCode::usage, error.what());
    }
}

TemplateRun TaskTemplate::strict_run() const {
    TemplateRun run(source_);
    run.strict = true;
    return run;
}

TemplateVariables TaskTemplate::variables_of(const TemplateRun& run, const Json& fields) const {
    TemplateVariables variables;
    for (const auto& [name, value] : fields.items())
        variables.emplace_back(name, value_of(run, value));
    return variables;
}

std::string TaskTemplate::render(const Json& fields) const {
    TemplateRun run = strict_run();
    return render_template(run, body_, variables_of(run, fields));
}

bool TaskTemplate::is_expression() const {
    return body_.size() == 1 && body_[0].kind == TemplateNode::Kind::output;
}

std::vector<std::string> TaskTemplate::render_list(const Json& fields) const {
    GPTRAIN_CHECK(is_expression());
    TemplateRun run = strict_run();
    const TemplateValue list = evaluate_expression(run, *body_[0].expr, variables_of(run, fields));
    if (list.is(TemplateValue::Kind::undefined)) printed(run, list);
    if (!list.is(TemplateValue::Kind::list)) run.fail("must give a list, not ", kind_name(list));
    std::vector<std::string> texts;
    for (const TemplateValue& one : list.items->values)
        texts.push_back(printed(run, one));
    return texts;
}

}  // namespace gptrain
