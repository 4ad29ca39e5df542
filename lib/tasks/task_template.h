// The templates of a task: Jinja, as in chat templates (text/chat_template.h), over the fields of a
// document.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/template_render.h"

namespace gptrain {

class TaskTemplate {
public:
    /// `source` names it in errors. Error (usage) if the text is not a template.
    TaskTemplate(std::string_view text, std::string source);

    /// The text for a document, whose fields are the variables. Error (bad_input) that begins with
    /// the source: those of render_template, and a field that the document lacks.
    std::string render(const Json& fields) const;
    /// True if the template is one expression and nothing else, such as "{{ endings }}".
    bool is_expression() const;
    /// The texts of the list that such an expression gives. Error (bad_input) if it gives no list.
    std::vector<std::string> render_list(const Json& fields) const;

private:
    TemplateVariables variables_of(const TemplateRun& run, const Json& fields) const;
    TemplateRun strict_run() const;

    std::string source_;
    TemplateBody body_;
};

}  // namespace gptrain
