// The candidates of a search.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/choices.h"
#include "spec/run_plan.h"

namespace gptrain {

/// The values that each key may take. An empty list stands for all useful values.
struct SearchSpace {
    std::vector<std::int64_t> tensor;    ///< empty: divisors of the ranks
    std::vector<std::int64_t> pipeline;  ///< empty: divisors of the ranks
    std::vector<std::int64_t> context;   ///< empty: divisors that leave 256 tokens or more
    std::vector<std::int64_t> data;      ///< empty: any
    std::vector<std::int64_t> expert;    ///< empty: divisors of the experts and of the ranks
    /// Empty: the fewest for each number of layers in the largest chunk.
    std::vector<std::int64_t> virtual_stages;
    /// Empty: auto, and the even and nearly even splits.
    std::vector<std::optional<std::vector<std::int64_t>>> layers;
    std::vector<std::int64_t> micro_batch;  ///< empty: divisors of a data rank's samples
    std::vector<std::int64_t> global_batch;
    std::vector<bool> sequence_parallel = {true, false};
    /// With sequence parallelism.
    std::vector<OverlapTensor> overlap_tensor = {OverlapTensor::off, OverlapTensor::on};
    std::vector<Sharded> shard = {Sharded::optimizer, Sharded::none};
    /// Empty: the spec's. The same holds for the lists of offload.
    std::vector<std::optional<std::int64_t>> shard_ranks;
    std::vector<bool> offload_optimizer;
    std::vector<bool> offload_main_weights;
    std::vector<OffloadedActivations> offload_activations;
    /// Settings that do not fit are tried again with more of their state divided, or in host memory
    /// (search/savings.h).
    bool divides_more = true;
    bool offloads_more = true;
    std::vector<ContextMethod> context_method = {ContextMethod::ring, ContextMethod::all_to_all};
    std::vector<ScheduleKind> schedule;  ///< empty: all
    std::vector<Recompute> recompute = {Recompute::none, Recompute::selective, Recompute::full};
    /// Settings that change results are not varied unless asked for.
    std::vector<std::optional<Precision>> compute;
    std::vector<std::optional<Fp8Recipe>> fp8_recipe;  ///< with fp8
    std::vector<Precision> grad_reduce;
};

/// The whole space for a spec whose global batch size is given.
SearchSpace whole_space(const RunSpec& spec);

/// The list's values that divide `number`; of an empty list all of its divisors.
std::vector<std::int64_t> dividing_values(const std::vector<std::int64_t>& list,
                                          std::int64_t number);

/// The values of a key as the user limits them: "parallel.tensor=4,8".
struct FixedKey {
    std::string key;
    std::vector<std::string> values;
};

/// Error (usage) for text of another form and for a key that the search does not vary.
FixedKey parse_fixed_key(std::string_view text);

/// Limits a key to the values that it has in `specs`.
void fix(SearchSpace& space, std::string_view key, const std::vector<RunSpec>& specs);

/// Stands for all schedules that defer weight gradients, or for all others.
ScheduleKind group_schedule(bool defers_weights);

/// Groups of candidates that differ only in schedule, virtual stages, the split of the layers and
/// what ranks shard; their layers take the same time and activations. The schedule of a group is
/// group_schedule. Groups that differ only in the micro batch size are one element, the smallest
/// first.
std::vector<std::vector<Choices>> candidate_groups(const SearchSpace& space, const RunSpec& spec,
                                                   std::int64_t ranks);

/// The candidates of a group, of a model with `layers` layers, without those that only save memory.
std::vector<Choices> candidates_of(const Choices& group, const SearchSpace& space,
                                   std::int64_t layers);

}  // namespace gptrain
