// The keys that a search varies, and how a user limits them.
#include <algorithm>
#include <array>
#include <span>

#include "base/join.h"
#include "search/space.h"
#include "spec/plan_checks.h"

namespace gptrain {
namespace {

using Specs = std::span<const RunSpec>;

struct SearchedKey {
    std::string_view name;
    void (*limit)(SearchSpace& space, Specs specs);  ///< to the values in `specs`
};

/// Limits a list of the space to the values at `Path` in the specs.
template <auto List, auto... Path>
void limit(SearchSpace& space, Specs specs) {
    auto& list = space.*List;
    list.clear();
    for (const RunSpec& spec : specs) {
        const auto& next = (spec.*....*Path);
        if (std::find(list.begin(), list.end(), next) == list.end()) list.push_back(next);
    }
}

/// Any number of data ranks if one of the specs leaves it open.
void limit_data(SearchSpace& space, Specs specs) {
    space.data.clear();
    for (const RunSpec& spec : specs) {
        if (!spec.parallel.data) return space.data.clear();
        space.data.push_back(*spec.parallel.data);
    }
}

template <auto List, auto Field>
constexpr auto parallel_limit = limit<List, &RunSpec::parallel, Field>;

void limit_shard(SearchSpace& space, Specs specs) {
    parallel_limit<&SearchSpace::shard, &ParallelSpec::shard>(space, specs);
    space.divides_more = false;
}

template <auto List, auto Field>
void limit_offload(SearchSpace& space, Specs specs) {
    limit<List, &RunSpec::offload, Field>(space, specs);
    space.offloads_more = false;
}

using Space = SearchSpace;
using Parallel = ParallelSpec;
constexpr std::array<SearchedKey, 21> searched_keys = {{
    {"parallel.tensor", parallel_limit<&Space::tensor, &Parallel::tensor>},
    {"parallel.pipeline", parallel_limit<&Space::pipeline, &Parallel::pipeline>},
    {"parallel.context", parallel_limit<&Space::context, &Parallel::context>},
    {"parallel.data", limit_data},
    {"parallel.expert", parallel_limit<&Space::expert, &Parallel::expert>},
    {"parallel.virtual_stages", parallel_limit<&Space::virtual_stages, &Parallel::virtual_stages>},
    {"parallel.layers", parallel_limit<&Space::layers, &Parallel::layers>},
    {"parallel.sequence_parallel",
     parallel_limit<&Space::sequence_parallel, &Parallel::sequence_parallel>},
    {"parallel.overlap_tensor", parallel_limit<&Space::overlap_tensor, &Parallel::overlap_tensor>},
    {"parallel.context_method", parallel_limit<&Space::context_method, &Parallel::context_method>},
    {"parallel.schedule", parallel_limit<&Space::schedule, &Parallel::schedule>},
    {"parallel.shard", limit_shard},
    {"parallel.shard_ranks", parallel_limit<&Space::shard_ranks, &Parallel::shard_ranks>},
    {"training.micro_batch_size",
     limit<&Space::micro_batch, &RunSpec::training, &TrainingSpec::micro_batch_size>},
    {"recompute", limit<&Space::recompute, &RunSpec::recompute>},
    {"offload.optimizer", limit_offload<&Space::offload_optimizer, &OffloadSpec::optimizer>},
    {"offload.main_weights",
     limit_offload<&Space::offload_main_weights, &OffloadSpec::main_weights>},
    {"offload.activations", limit_offload<&Space::offload_activations, &OffloadSpec::activations>},
    {"precision.compute", limit<&Space::compute, &RunSpec::precision, &PrecisionSpec::compute>},
    {"precision.fp8_recipe",
     limit<&Space::fp8_recipe, &RunSpec::precision, &PrecisionSpec::fp8_recipe>},
    {"precision.grad_reduce",
     limit<&Space::grad_reduce, &RunSpec::precision, &PrecisionSpec::grad_reduce>},
}};

const SearchedKey* find_key(std::string_view name) {
    if (name == "parallel.shard_optimizer") name = "parallel.shard";  // its former key
    const auto* found = std::find_if(searched_keys.begin(), searched_keys.end(),
                                     [&](const SearchedKey& key) { return key.name == name; });
    return found == searched_keys.end() ? nullptr : found;
}

std::vector<std::string> key_names() {
    std::vector<std::string> names;
    for (const SearchedKey& key : searched_keys)
        names.emplace_back(key.name);
    return names;
}

/// Splits at commas outside of brackets.
std::vector<std::string> split_values(std::string_view list) {
    std::vector<std::string> values(1);
    int depth = 0;
    for (const char c : list) {
        depth += c == '[' ? 1 : c == ']' ? -1 : 0;
        if (c == ',' && depth == 0) {
            values.emplace_back();
        } else {
            values.back() += c;
        }
    }
    return values;
}

}  // namespace

FixedKey parse_fixed_key(std::string_view text) {
    const std::size_t equals = text.find('=');
    require(equals != std::string_view::npos && equals + 1 < text.size(), "--fix ", text,
            ": give KEY.PATH=VALUE, or several values with commas between them");
    const std::string key(text.substr(0, equals));
    if (find_key(key) == nullptr) {
        const std::vector<std::string> names = key_names();
        const auto near = nearest(key, names);
        fail(ExitCode::usage, "--fix ", text, ": the search does not vary ", key,
             near ? gptrain::text("; did you mean ", *near, "?") : "; use --set to change it",
             " (it varies ", joined(names), ")");
    }
    return {key, split_values(text.substr(equals + 1))};
}

void fix(SearchSpace& space, std::string_view key, const std::vector<RunSpec>& specs) {
    const SearchedKey* found = find_key(key);
    GPTRAIN_CHECK(found != nullptr, "not a searched key: ", key);
    found->limit(space, specs);
}

}  // namespace gptrain
