// The candidates of a search as they were measured.
#pragma once

#include <string>
#include <vector>

#include "search/measured_file.h"
#include "search/search_report.h"

namespace gptrain {

struct Measured {
    Found found;
    MeasuredTime time;
};

/// Sorts the candidates: first those with a time, the fastest per sample first, then those that
/// failed.
void sort_measured(std::vector<Measured>& measured);

/// The geometric mean of measured / estimated times; 1 if there are none.
double measured_ratio(const std::vector<Measured>& measured);

/// A table of at most 100 columns next to the settings, then the failures. `measured` is sorted.
std::string to_text(const std::vector<Measured>& measured);

/// One JSON object, with a line break at its end (docs/outputs.md lists its members).
std::string to_json(const std::vector<Measured>& measured, const SearchContext& context);

}  // namespace gptrain
