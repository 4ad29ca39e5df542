#include "metrics/reported_measures.h"

#include <algorithm>

#include "base/text.h"

namespace gptrain {
namespace {

/// The labels of a measure's numbers, in order.
std::vector<std::string> labels_of(const MeasureRow& row, const MeasureCounts& counts,
                                   std::span<const std::string> sources) {
    if (row.of == MeasureOf::source) return {sources.begin(), sources.end()};
    std::vector<std::string> labels;
    for (std::int64_t i = 0; i < counts.of(row.of); ++i)
        labels.push_back(row.of == MeasureOf::batch ? "" : text(i));
    return labels;
}

void add_number(std::vector<MeasuredNumber>& numbers, const std::string& label,
                const WeightedSum& value) {
    if (value.weight == 0) return;
    const auto found = std::ranges::find(numbers, label, &MeasuredNumber::label);
    if (found == numbers.end()) {
        numbers.push_back({label, value});
    } else {
        found->value.add(value);
    }
}

}  // namespace

std::vector<ReportedMeasure> reported_measures(std::span<const WeightedSum> sums,
                                               const MeasureCounts& counts,
                                               std::span<const std::string> sources) {
    std::vector<ReportedMeasure> all;
    for (const MeasureRow& row : measure_rows) {
        const auto own = sums.first(static_cast<std::size_t>(counts.of(row.of)));
        sums = sums.subspan(own.size());
        ReportedMeasure measure = {.row = &row, .numbers = {}};
        const std::vector<std::string> labels = labels_of(row, counts, sources);
        for (std::size_t i = 0; i < std::min(own.size(), labels.size()); ++i)
            add_number(measure.numbers, labels[i], own[i]);
        if (!measure.numbers.empty()) all.push_back(std::move(measure));
    }
    return all;
}

const MeasuredNumber* find_number(std::span<const ReportedMeasure> measures, const MeasureRow& row,
                                  std::string_view label) {
    for (const ReportedMeasure& measure : measures) {
        if (measure.row != &row) continue;
        const auto found = std::ranges::find(measure.numbers, label, &MeasuredNumber::label);
        if (found != measure.numbers.end()) return &*found;
    }
    return nullptr;
}

std::string path_of(std::string_view prefix, const MeasureRow& row, std::string_view label,
                    char separator) {
    std::string path = text(prefix, row.name, separator);
    if (!label.empty()) path += text(label, separator);
    return path + std::string(row.mean);
}

std::string title_of(std::string_view prefix, const MeasureRow& row) {
    return text(prefix.empty() ? "Training " : "Validation ", row.title);
}

}  // namespace gptrain
