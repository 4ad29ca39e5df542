// A picture of a search's results.
#pragma once

#include <string>

#include "search/search_report.h"

namespace gptrain {

/// An SVG file: time against memory of all candidates that may fit, with the best ones numbered,
/// and the places of the ranks on the nodes in the mesh of the fastest. Something must fit.
std::string to_svg(const SearchReport& report, const SearchContext& context);

}  // namespace gptrain
