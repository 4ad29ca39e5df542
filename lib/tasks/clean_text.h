// How published data sets are cleaned before a model reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tasks/task_spec.h"

namespace gptrain {

/// hellaswag: without white space at the ends, " [title]" becomes ". ", other text in brackets is
/// removed (it stems from WikiHow's pages), and two spaces become one.
/// wikitext: undoes the tokens of WikiText: spaces around punctuation, inside brackets and quotes,
/// and "@-@" and its like.
/// Both are those of lm-evaluation-harness (0.4.13), the latter without its rule for "/' 0/".
std::string clean_text(std::string text, TextCleaning cleaning);

/// The pages of WikiText's files: one begins at each line " = Title = ". The first one may begin
/// without, if it is not blank.
std::vector<std::string> wikitext_pages(std::string_view text);

}  // namespace gptrain
