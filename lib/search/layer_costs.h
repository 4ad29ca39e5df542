// The time and memory of layers, measured on small pipelines on the meter.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "backend/backend.h"
#include "engine/step_trace.h"
#include "hardware/profile.h"
#include "planner/simulate.h"
#include "search/choices.h"
#include "spec/make_plan.h"

namespace gptrain {

/// Bytes on a rank.
struct LayerBytes {
    double weights = 0;
    double grads = 0;
    double optimizer = 0;  ///< of all ranks that share it
    double saved = 0;      ///< of one microbatch

    static constexpr auto parts() {
        return std::array{&LayerBytes::weights, &LayerBytes::grads, &LayerBytes::optimizer,
                          &LayerBytes::saved};
    }
};

/// A sum of parts, each a number.
template <class Cost>
concept PartedCost = requires {
    Cost::parts();
};
template <PartedCost Cost>
Cost& operator+=(Cost& sum, const Cost& other) {
    for (const auto part : Cost::parts())
        sum.*part += other.*part;
    return sum;
}
template <PartedCost Cost>
Cost operator*(double count, Cost cost) {
    for (const auto part : Cost::parts())
        cost.*part *= count;
    return cost;
}

/// Layers without experts, and with them.
using LayerCounts = std::array<std::int64_t, 2>;

/// Of `count` layers from `first` on.
LayerCounts layer_counts(const ModelShape& model, std::int64_t first, std::int64_t count);

/// A chunk takes the sum of its layers. The model's first chunk also takes `embedding`, its last
/// one `head`.
template <class Cost>
struct ChunkParts {
    std::array<Cost, 2> layer;  ///< without experts, and with them
    Cost embedding;
    Cost head;

    Cost of(const LayerCounts& layers, bool first, bool last) const {
        Cost cost = static_cast<double>(layers[0]) * layer[0];
        cost += static_cast<double>(layers[1]) * layer[1];
        if (first) cost += embedding;
        if (last) cost += head;
        return cost;
    }
};

struct LayerMemory {
    ChunkParts<LayerBytes> bytes;
    double workspace = 0;  ///< bytes, the least of any stage
};

struct LayerTimes {
    ChunkParts<ChunkCost> seconds;  ///< of one microbatch
    double crowding = 1;            ///< least_crowding while it was measured
    TraceMessage boundary;          ///< to the next stage
};

/// Costs of one spec on one number of ranks of given hardware, with nothing in host memory.
class LayerCostTable {
public:
    LayerCostTable(const RunSpec& spec, const PlanTarget& target, const BackendMemory& needs,
                   const HardwareProfile& hardware)
        : spec_(spec), target_(target), needs_(needs), hardware_(hardware) {}

    /// Measures once for all candidates with the same costs. Several threads may call these.
    const LayerMemory& memory(const Choices& candidate);
    const LayerTimes& times(const Choices& candidate);
    /// At most these times, from few measurements: those of a larger microbatch, several of which
    /// take no more time than it, without recomputation, and with the weight gradients in their
    /// place where they hide messages.
    LayerTimes least_times(const Choices& candidate);

private:
    /// All that the costs depend on.
    using Key = std::tuple<std::int64_t, std::int64_t, bool, OverlapTensor, std::int64_t,
                           ContextMethod, std::int64_t, Recompute, std::optional<Precision>,
                           std::optional<Fp8Recipe>, bool>;
    static Key key_of(const Choices& candidate);
    template <class Costs>
    struct Entry {
        std::once_flag measured;
        Costs costs;
    };
    template <class Costs>
    Entry<Costs>& entry(std::map<Key, Entry<Costs>>& table, const Key& key);
    LayerMemory memory_of(const Choices& candidate) const;
    LayerTimes times_of(const Choices& candidate) const;
    /// Frozen patterns for the smaller model on which bounds are measured: a tensor frozen in any
    /// layer is frozen in all.
    std::vector<std::string> frozen_in_any_layer() const;
    /// The kinds of layers that the first stage of a small model may have. The second stage has
    /// the other kind, if the model has two.
    std::vector<bool> kinds() const;
    /// The data ranks of a small pipeline: as many as the expert axis needs.
    static std::int64_t data_ranks(const ParallelSpec& parallel);
    RunPlan small_plan(const Choices& candidate, bool experts, std::int64_t layers_per_stage,
                       std::int64_t microbatches) const;

    const RunSpec& spec_;
    const PlanTarget& target_;
    const BackendMemory& needs_;
    const HardwareProfile& hardware_;
    std::mutex mutex_;  ///< of the tables, not of their entries
    std::map<Key, Entry<LayerMemory>> memory_;
    std::map<Key, Entry<LayerTimes>> times_;
};

}  // namespace gptrain
