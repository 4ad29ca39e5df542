// Evaluation of a parsed chat template.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/template_syntax.h"

namespace gptrain {

using TemplateVariables = std::vector<std::pair<std::string, TemplateValue>>;

/// The text of the template. Error (bad_input) with the template's name and line: a construct
/// outside of the subset, an undefined value where Jinja needs one, a conversation that the
/// template refuses, or more work than any chat template needs.
std::string render_template(TemplateRun& run, const TemplateBody& body,
                            const TemplateVariables& variables);

}  // namespace gptrain
