// The numbers that a step or an evaluation sums besides the loss. Adding one takes two places: its
// row in `measure_rows`, and the part of the model that adds to StepRef::measure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/words.h"

namespace gptrain {

/// A sum over tokens, or over whatever has a weight, of any number of batches.
struct WeightedSum {
    double sum = 0;
    double weight = 0;
    void add(const WeightedSum& other) {
        sum += other.sum;
        weight += other.weight;
    }
    double mean() const { return sum / weight; }
};

/// A measure has a number for the whole batch, for each layer, for each layer of a model with
/// experts, or for each source of the samples.
enum class MeasureOf { batch, layer, expert_layer, source };
/// The labels of the numbers in Prometheus.
constexpr auto words_of(MeasureOf) {
    using enum MeasureOf;
    return std::to_array<Word<MeasureOf>>(
        {{batch, ""}, {layer, "layer"}, {expert_layer, "layer"}, {source, "source"}});
}

/// The order is that of `measure_rows`.
enum class Measure { loss_by_source, router_loss, router_entropy, expert_load, unused_experts };

/// Each number is reported as the mean, sum / weight. In metrics.jsonl it is an object with the
/// mean and the weight, inside an object by layer or source unless there is one for the whole
/// batch.
struct MeasureRow {
    std::string_view name;  ///< in all reports; begins with "val_" in evaluations
    MeasureOf of = MeasureOf::batch;
    std::string_view mean;    ///< its key in metrics.jsonl
    std::string_view weight;  ///< the same of the weight
    std::string_view title;   ///< for people, after "training" or "validation"
    std::string_view unit;
};
inline constexpr auto measure_rows = std::to_array<MeasureRow>({
    {.name = "loss_by_source",
     .of = MeasureOf::source,
     .mean = "loss",
     .weight = "tokens",
     .title = "loss by source",
     .unit = "nats per token"},
    {.name = "router_loss",
     .of = MeasureOf::expert_layer,
     .mean = "mean",
     .weight = "tokens",
     .title = "loss of routers",
     .unit = "nats per token"},
    {.name = "router_entropy",
     .of = MeasureOf::expert_layer,
     .mean = "mean",
     .weight = "tokens",
     .title = "entropy of routers",
     .unit = "nats per token"},
    {.name = "expert_load",
     .of = MeasureOf::expert_layer,
     .mean = "largest",
     .weight = "steps",
     .title = "largest load of an expert",
     .unit = "times the mean"},
    {.name = "unused_experts",
     .of = MeasureOf::expert_layer,
     .mean = "experts",
     .weight = "steps",
     .title = "experts without tokens",
     .unit = "experts"},
});

/// The prefix of a measure's name in an evaluation.
constexpr std::string_view validation_prefix = "val_";

/// The numbers of layers and of sources for which a step or an evaluation has numbers.
struct MeasureCounts {
    std::int64_t layers = 0;
    std::int64_t expert_layers = 0;  ///< all layers, if the model has experts
    std::int64_t sources = 0;

    constexpr std::int64_t of(MeasureOf what) const {
        switch (what) {
            case MeasureOf::batch: return 1;
            case MeasureOf::layer: return layers;
            case MeasureOf::expert_layer: return expert_layers;
            case MeasureOf::source: return sources;
        }
        return 0;
    }
    /// Numbers of the first `rows` rows.
    constexpr std::int64_t before(std::size_t rows) const {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < rows; ++i)
            sum += of(measure_rows[i].of);
        return sum;
    }
    constexpr std::int64_t total() const { return before(measure_rows.size()); }
};

}  // namespace gptrain
