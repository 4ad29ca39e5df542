// Pieces of HTML that the sections of a report have in common.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "report/reported_run.h"

namespace gptrain {

/// Escapes text for HTML, also inside attributes.
std::string html_escaped(std::string_view words);

/// <TAG ATTRIBUTES>WORDS</TAG>, with the words escaped. `attributes` begin with a space.
std::string element(std::string_view tag, std::string_view words, std::string_view attributes = "");

/// The heading of a section.
std::string heading(std::string_view words);

/// A table in a box that scrolls sideways on narrow screens. `rows`: HTML.
std::string table(std::string_view rows);

/// The class of a colour, counted from 0; colours repeat after the eighth.
std::string colour_class(std::size_t colour);

/// A small area of a colour, for a legend.
std::string swatch(std::size_t colour);

/// The head of a table with a column for each run, in its colour, and the start of its body.
std::string run_columns(std::span<const ReportedRun> runs);

}  // namespace gptrain
