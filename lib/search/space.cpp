#include "search/space.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "schedule/schedule.h"
#include "spec/expert_checks.h"
#include "spec/plan_checks.h"

namespace gptrain {
namespace {

constexpr std::int64_t least_tokens = 256;  // of a sequence on a rank of cp

std::vector<std::int64_t> divisors(std::int64_t number) {
    std::vector<std::int64_t> all;
    for (std::int64_t n = 1; n <= number; ++n)
        if (number % n == 0) all.push_back(n);
    return all;
}

template <class T>
std::vector<T> or_only(bool varies, const std::vector<T>& list, const T& only) {
    return varies || list.size() == 1 ? list : std::vector<T>{only};
}

/// The list, or the spec's own value where the space leaves the key alone.
template <class T>
std::vector<T> or_own(const std::vector<T>& list, const T& own) {
    return list.empty() ? std::vector<T>{own} : list;
}

bool includes(const std::vector<ScheduleKind>& list, ScheduleKind kind) {
    return list.empty() || std::find(list.begin(), list.end(), kind) != list.end();
}

}  // namespace

SearchSpace whole_space(const RunSpec& spec) {
    SearchSpace space;
    space.global_batch = {spec.training.global_batch_size.value()};
    space.compute = {spec.precision.compute};
    space.fp8_recipe = {spec.precision.fp8_recipe};
    space.grad_reduce = {spec.precision.grad_reduce};
    if (spec.parallel.overlap_tensor != OverlapTensor::automatic)
        space.overlap_tensor = {spec.parallel.overlap_tensor};
    return space;
}

std::vector<std::int64_t> dividing_values(const std::vector<std::int64_t>& list,
                                          std::int64_t number) {
    if (list.empty()) return divisors(number);
    std::vector<std::int64_t> values = list;
    std::erase_if(values, [&](std::int64_t n) { return number % n != 0; });
    return values;
}

namespace {

/// Fills in the mesh; appends what follows from it.
class GroupList {
public:
    GroupList(const SearchSpace& space, const RunSpec& spec, std::int64_t ranks)
        : space_(space), spec_(spec), ranks_(ranks) {}

    std::vector<std::vector<Choices>> all() {
        for (const std::int64_t tensor : dividing_values(space_.tensor, ranks_)) {
            for (const std::int64_t pipeline : dividing_values(space_.pipeline, ranks_ / tensor)) {
                const std::int64_t left = ranks_ / tensor / pipeline;
                for (const std::int64_t context : dividing_values(space_.context, left)) {
                    const bool too_short = context > 1 && space_.context.empty() &&
                                           spec_.training.seq_length / context < least_tokens;
                    if (!too_short) add_mesh(tensor, pipeline, context);
                }
            }
        }
        return std::move(settings_);
    }

private:
    void add_mesh(std::int64_t tensor, std::int64_t pipeline, std::int64_t context) {
        const std::int64_t data = ranks_ / tensor / pipeline / context;
        const bool wanted = space_.data.empty() || std::find(space_.data.begin(), space_.data.end(),
                                                             data) != space_.data.end();
        if (!wanted) return;
        Choices group;
        group.parallel.shard_ranks = spec_.parallel.shard_ranks;
        group.offload = spec_.offload;
        group.parallel.reshard = spec_.parallel.reshard;
        group.parallel.tensor = tensor;
        group.parallel.pipeline = pipeline;
        group.parallel.context = context;
        for (const bool sequence : or_only(tensor > 1, space_.sequence_parallel, false)) {
            group.parallel.sequence_parallel = sequence;
            for (const OverlapTensor overlap :
                 or_only(sequence, space_.overlap_tensor, OverlapTensor::off)) {
                group.parallel.overlap_tensor = overlap;
                add_experts(group, data);
            }
        }
    }

    /// Ranks with different tokens divide the experts. Those of tensor have the same ones without
    /// sequence parallelism.
    void add_experts(Choices group, std::int64_t data) {
        const ParallelSpec& mesh = group.parallel;
        const std::int64_t near = mesh.context * mesh.tensor;
        const bool varies = spec_.model.experts && (mesh.tensor == 1 || mesh.sequence_parallel);
        const std::int64_t most = varies ? std::gcd(spec_.model.experts->count, near * data) : 1;
        for (const std::int64_t expert : dividing_values(space_.expert, most)) {
            if (!are_neighbours(expert, mesh.tensor) || !are_neighbours(expert, near)) continue;
            group.parallel.expert = expert;
            add_methods(group, data);
        }
    }

    void add_methods(Choices group, std::int64_t data) {
        for (const ContextMethod method :
             or_only(group.parallel.context > 1, space_.context_method, ContextMethod::ring)) {
            group.parallel.context_method = method;
            add_batches(group, data);
        }
    }

    void add_batches(Choices group, std::int64_t data) {
        for (const std::int64_t global : space_.global_batch) {
            group.global_batch_size = global;
            add_modes(group, micro_batches(global, data));
        }
    }

    /// Data ranks have different numbers of microbatches only if they do not divide the sequences.
    std::vector<std::int64_t> micro_batches(std::int64_t global, std::int64_t data) const {
        const std::int64_t shared = global % data == 0 ? global / data : global;
        std::vector<std::int64_t> numbers = dividing_values(space_.micro_batch, shared);
        std::erase_if(numbers, [&](std::int64_t micro) { return global / micro < data; });
        std::sort(numbers.begin(), numbers.end());
        return numbers;
    }

    void add_modes(Choices group, const std::vector<std::int64_t>& micro_batches) {
        if (micro_batches.empty()) return;
        for (const auto& compute : space_.compute) {
            group.compute = compute;
            add_recipes(group, micro_batches);
        }
    }

    void add_recipes(Choices group, const std::vector<std::int64_t>& micro_batches) {
        const auto& recipes = group.compute == Precision::fp8 ? space_.fp8_recipe : no_recipe_;
        for (const auto& recipe : recipes) {
            group.fp8_recipe = recipe;
            for (const Precision grad_reduce : space_.grad_reduce) {
                group.grad_reduce = grad_reduce;
                for (const Recompute recompute : space_.recompute) {
                    group.recompute = recompute;
                    add_schedules(group, micro_batches);
                }
            }
        }
    }

    void add_schedules(Choices group, const std::vector<std::int64_t>& micro_batches) {
        const auto add = [&](bool deferred) {
            group.parallel.schedule = group_schedule(deferred);
            std::vector<Choices>& groups = settings_.emplace_back();
            for (const std::int64_t micro : micro_batches) {
                group.micro_batch_size = micro;
                groups.push_back(group);
            }
        };
        const bool only_deferred = !allows(false);
        if (!only_deferred) add(false);
        // With deferred weight gradients selective keeps what none keeps.
        const bool again =
            group.recompute == Recompute::selective && space_.recompute.front() == Recompute::none;
        const bool useful = (group.parallel.pipeline > 1 || only_deferred) && !again;
        if (useful && allows(true)) add(true);
    }

    /// True if the space has a schedule that defers weight gradients, or one that does not.
    bool allows(bool deferred) const {
        const auto& list = space_.schedule;
        return list.empty() || std::any_of(list.begin(), list.end(), [&](ScheduleKind kind) {
                   return defers_weights(kind) == deferred;
               });
    }

    const SearchSpace& space_;
    const RunSpec& spec_;
    std::int64_t ranks_;
    std::vector<std::optional<Fp8Recipe>> no_recipe_ = {std::nullopt};
    std::vector<std::vector<Choices>> settings_;
};

/// The fewest virtual stages for each number of layers in the largest chunk.
std::vector<std::int64_t> useful_virtual_stages(std::int64_t stages, std::int64_t layers) {
    std::vector<std::int64_t> counts;
    for (std::int64_t most = div_ceil(layers, stages); most >= 1; --most) {
        const std::int64_t count = div_ceil(layers, stages * most);
        const bool known = std::find(counts.begin(), counts.end(), count) != counts.end();
        if (!known && stages * count <= layers) counts.push_back(count);
    }
    return counts;
}

/// The schedules of the group with their virtual stages.
std::vector<std::pair<ScheduleKind, std::int64_t>> schedules_of(const Choices& group,
                                                                const SearchSpace& space,
                                                                std::int64_t layers) {
    using enum ScheduleKind;
    const std::int64_t stages = group.parallel.pipeline;
    const std::vector<std::int64_t> counts = !space.virtual_stages.empty() ? space.virtual_stages
                                             : stages == 1 ? std::vector<std::int64_t>{1}
                                                           : useful_virtual_stages(stages, layers);
    std::vector<std::pair<ScheduleKind, std::int64_t>> all;
    for (const ScheduleKind kind : {one_f_one_b, interleaved_one_f_one_b, zero_bubble, gpipe}) {
        if (!includes(space.schedule, kind)) continue;
        if (defers_weights(kind) != group.defers_weights()) continue;
        const bool only = space.schedule.size() == 1;
        if (stages == 1 && kind != one_f_one_b && !only) continue;
        for (const std::int64_t count : counts) {
            const bool fits = kind == interleaved_one_f_one_b ? count > 1
                              : kind == zero_bubble           ? count <= 2
                                                              : count == 1;
            if (fits || (only && space.virtual_stages.size() == 1)) all.emplace_back(kind, count);
        }
    }
    return all;
}

/// Splits besides auto: even, and even but for one layer less in the first and last chunk.
std::vector<std::optional<std::vector<std::int64_t>>> useful_splits(std::int64_t chunks,
                                                                    std::int64_t layers) {
    std::vector<std::optional<std::vector<std::int64_t>>> splits = {std::nullopt};
    if (chunks == 1) return splits;
    if (layers % chunks == 0)
        splits.emplace_back(
            std::vector<std::int64_t>(static_cast<std::size_t>(chunks), layers / chunks));
    const std::int64_t most = (layers + 2) / chunks;
    if ((layers + 2) % chunks == 0 && most > 1 && chunks > 2) {
        std::vector<std::int64_t> split(static_cast<std::size_t>(chunks), most);
        split.front() = split.back() = most - 1;
        splits.emplace_back(std::move(split));
    }
    return splits;
}

/// The candidate with each of the space's ways to divide its state.
std::vector<Choices> divisions_of(Choices candidate, const SearchSpace& space) {
    std::vector<Choices> all;
    for (const Sharded shard : space.shard) {
        const bool divides_more = shard >= Sharded::gradients;
        if (divides_more && candidate.defers_weights() && space.shard.size() > 1) continue;
        candidate.parallel.shard = shard;
        for (const auto& ranks : or_own(space.shard_ranks, candidate.parallel.shard_ranks)) {
            all.push_back(candidate);
            all.back().parallel.shard_ranks = ranks;
        }
    }
    return all;
}

std::vector<OffloadSpec> offloads_of(const OffloadSpec& own, const SearchSpace& space) {
    std::vector<OffloadSpec> all;
    for (const bool optimizer : or_own(space.offload_optimizer, own.optimizer))
        for (const bool weights : or_own(space.offload_main_weights, own.main_weights))
            for (const auto activations : or_own(space.offload_activations, own.activations))
                all.push_back({optimizer, weights, activations});
    return all;
}

}  // namespace

ScheduleKind group_schedule(bool defers_weights) {
    return defers_weights ? ScheduleKind::zero_bubble : ScheduleKind::one_f_one_b;
}

std::vector<std::vector<Choices>> candidate_groups(const SearchSpace& space, const RunSpec& spec,
                                                   std::int64_t ranks) {
    return GroupList(space, spec, ranks).all();
}

std::vector<Choices> candidates_of(const Choices& group, const SearchSpace& space,
                                   std::int64_t layers) {
    std::vector<Choices> all;
    Choices candidate = group;
    for (const auto& [kind, count] : schedules_of(group, space, layers)) {
        candidate.parallel.schedule = kind;
        candidate.parallel.virtual_stages = count;
        const auto splits = space.layers.empty()
                                ? useful_splits(group.parallel.pipeline * count, layers)
                                : space.layers;
        for (const auto& split : splits) {
            candidate.parallel.layers = split;
            for (const Choices& divided : divisions_of(candidate, space)) {
                for (const OffloadSpec& offload : offloads_of(group.offload, space)) {
                    all.push_back(divided);
                    all.back().offload = offload;
                }
            }
        }
    }
    return all;
}

}  // namespace gptrain
