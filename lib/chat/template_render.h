// Evaluation of a parsed template.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "chat/template_scopes.h"
#include "chat/template_syntax.h"

namespace gptrain {

/// Bytes [begin, end) of a text.
struct TextRange {
    std::size_t begin = 0;
    std::size_t end = 0;
};

/// The text of the template. `generated`, if given, receives the parts of the text that
/// {% generation %} encloses, in order. Error (bad_input) with the template's name and line: a
/// construct outside of the subset, an undefined value where Jinja needs one, a conversation that
/// the template refuses, or more work than any chat template needs.
std::string render_template(TemplateRun& run, const TemplateBody& body,
                            const TemplateVariables& variables,
                            std::vector<TextRange>* generated = nullptr);

/// The value of an expression, with the same Errors.
TemplateValue evaluate_expression(TemplateRun& run, const TemplateExpr& expr,
                                  const TemplateVariables& variables);

}  // namespace gptrain
