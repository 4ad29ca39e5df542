// The report of a search for fast answers, for people and for programs.
#pragma once

#include <string>

#include "answers/answer_search.h"

namespace gptrain {

/// A table of at most 100 columns, then what does not fit and what the rules refuse.
std::string to_text(const AnswerResult& result, const AnswerQuestion& question,
                    const SearchContext& context);

/// One JSON object, with a line break at its end (docs/outputs.md lists its members).
std::string to_json(const AnswerResult& result, const AnswerQuestion& question,
                    const SearchContext& context);

}  // namespace gptrain
