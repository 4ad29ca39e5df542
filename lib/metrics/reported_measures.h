// The measures of a step or an evaluation (backend/measures.h), as they are reported.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/measures.h"

namespace gptrain {

/// A number of a measure.
struct MeasuredNumber {
    std::string label;  ///< a layer, counted from 0, or a source; empty for a whole batch
    WeightedSum value;
};

struct ReportedMeasure {
    const MeasureRow* row = nullptr;
    std::vector<MeasuredNumber> numbers;
};

/// The numbers in `sums`, which follow each other in the order of `measure_rows`, that have a
/// weight. `sources`: the names of the sources; numbers with equal labels are one.
std::vector<ReportedMeasure> reported_measures(std::span<const WeightedSum> sums,
                                               const MeasureCounts& counts,
                                               std::span<const std::string> sources);

/// The number with this label; null if there is none.
const MeasuredNumber* find_number(std::span<const ReportedMeasure> measures, const MeasureRow& row,
                                  std::string_view label);

/// "loss_by_source/web/loss": where metrics.jsonl has the mean of a number. `prefix`: "" or
/// validation_prefix.
std::string path_of(std::string_view prefix, const MeasureRow& row, std::string_view label,
                    char separator);

/// "Training loss by source".
std::string title_of(std::string_view prefix, const MeasureRow& row);

}  // namespace gptrain
