#include "search/search.h"

#include <algorithm>
#include <cmath>

#include "base/parallel_for.h"
#include "base/text.h"
#include "search/bounds.h"
#include "search/known.h"
#include "search/savings.h"

namespace gptrain {
namespace {

/// Candidates, sorted out.
struct Expanded {
    std::vector<std::pair<Choices, Known>> fitting;     ///< all that may fit
    std::vector<std::pair<Choices, double>> too_large;  ///< with the bytes that it needs
    std::vector<std::pair<Choices, std::string>> refused;
};

class Search {
public:
    Search(const SearchContext& context, const SearchSpace& space, std::int64_t count)
        : context_(context),
          space_(space),
          count_(count),
          costs_(context.spec, context.target, context.needs, context.hardware) {}

    SearchResult run();

private:
    /// Queues all candidates that may fit.
    void start();
    /// The candidates of groups that differ only in the micro batch size, the smallest first.
    Expanded expand(const std::vector<Choices>& groups);
    /// Adds those of one group. Returns the least bytes that one needs if none has room.
    std::optional<double> expand(const Choices& group, Expanded& to);
    /// The same candidate with better bounds. Several threads may call it.
    Known refine(const Known& known);
    /// True if it could be among the results that are still missing.
    bool is_wanted(const Known& known) const;
    Known pop();
    /// Takes from the front of the queue the wanted candidates that can be refined at the same
    /// time.
    std::vector<Known> take_equals();
    void accept(const Known& known);
    void discard(const Known& known);
    /// Gives a better bound than their candidates' own ones to the values left out.
    void bound_values();
    /// The bound of all discarded candidates with a value.
    double bound_of(const Outcomes::Value& value);
    const Choices& choices_of(const Known& known) const { return candidates_[known.candidate]; }
    void drop(const Choices& choices, double bytes) {
        ++result_.counts.too_large;
        outcomes_.too_large(choices, bytes);
    }
    void refuse(const Choices& choices, const std::string& rule) {
        ++result_.counts.refused;
        outcomes_.refused(choices, rule);
    }
    /// Queues a candidate that may fit.
    void queue(const Choices& choices, Known known);
    /// Adds one that fits by its bounds, or else what saves memory; returns the least bytes that
    /// one of them needs if none has room.
    std::optional<double> place(const Choices& choices, const RunPlan& plan, Expanded& to);
    std::optional<double> save(const Choices& choices, const RunPlan& plan, double bytes,
                               Expanded& to);
    /// Leaves a candidate out, which turned out to need more `bytes` than there are, and queues
    /// what saves memory.
    void replace(const Known& known, double bytes);
    /// The rule of the spec that `make` finds broken.
    static std::optional<std::string> rule_against(const auto& make) {
        try {
            make();
            return {};
        } catch (const Error& error) {
            if (error.code() == ExitCode::bug) throw;
            return error.what();
        }
    }
    bool fits(double bytes) const { return bytes <= context_.capacity; }

    const SearchContext& context_;
    const SearchSpace& space_;
    std::int64_t count_;
    LayerCostTable costs_;
    std::vector<Choices> candidates_;  ///< all that may fit
    Queue queue_;
    std::vector<Known> discarded_;  ///< they may fit, but others are faster
    Outcomes outcomes_;
    SearchResult result_;
};

double per_sample(double seconds, const Choices& choices) {
    return seconds / static_cast<double>(choices.global_batch_size);
}

std::optional<double> Search::expand(const Choices& group, Expanded& to) {
    if (const auto refusal = rule_against([&] { plan_of(context_, group); })) {
        to.refused.emplace_back(group, *refusal);
        return {};
    }
    std::vector<Choices> seen;  // with the layers of their chunks
    std::optional<Choices> planned;
    RunPlan plan;
    std::optional<std::string> rule;  // against it
    double least = std::numeric_limits<double>::infinity();
    // A candidate that a rule refuses may be allowed, and small, with a larger micro batch.
    bool may_have_room = false;
    for (const Choices& choices : candidates_of(group, space_, context_.spec.model.num_layers)) {
        // No rule depends on who has the optimizer's state, nor does another part of the plan.
        Choices shared = choices;
        if (shared.parallel.shard == Sharded::none) shared.parallel.shard = Sharded::optimizer;
        const bool divides_more = shared.parallel.shard >= Sharded::gradients;
        if (planned != shared) {
            planned = shared;
            rule = rule_against([&] { plan = plan_of(context_, shared); });
        }
        if (rule) {
            to.refused.emplace_back(choices, *rule);
            may_have_room = true;
            continue;
        }
        if (!divides_more) plan.shard = choices.parallel.shard;
        seen.push_back(choices);
        seen.back().parallel.layers = plan.chunk_layers;
        // Nobody to share the optimizer with.
        const MeshShape& mesh = plan.mesh;
        if (mesh.data * mesh.context == 1 && (mesh.expert == 1 || mesh.expert == mesh.tensor))
            seen.back().parallel.shard = Sharded::optimizer;
        if (std::find(seen.begin(), seen.end() - 1, seen.back()) != seen.end() - 1) continue;
        if (const auto bytes = place(choices, plan, to)) {
            least = std::min(least, *bytes);
        } else {
            may_have_room = true;
        }
    }
    if (may_have_room || std::isinf(least)) return {};
    return least;
}

std::optional<double> Search::place(const Choices& choices, const RunPlan& plan, Expanded& to) {
    const double bytes = memory_bound(costs_.memory(choices), plan);
    if (!fits(bytes)) {
        to.too_large.emplace_back(choices, bytes);
        return save(choices, plan, bytes, to);
    }
    const SavingSeconds saving = saving_seconds(plan, costs_.memory(choices), context_.hardware);
    const double work = work_bound(ideal_costs(plan, context_.hardware), plan);
    to.fitting.emplace_back(
        choices, Known{.bound = per_sample(std::max(work + saving.moves, saving.messages), choices),
                       .bytes = bytes,
                       .moves = per_sample(saving.moves, choices)});
    return {};
}

std::optional<double> Search::save(const Choices& choices, const RunPlan& plan, double bytes,
                                   Expanded& to) {
    // The one that divides the most stands for those that differ in what they divide.
    const Sharded most = *std::max_element(space_.shard.begin(), space_.shard.end());
    if (choices.parallel.shard < most) return bytes;
    double least = bytes;
    bool may_have_room = false;
    for (const Choices& saving : savings_of(choices, space_, context_)) {
        // A plan takes far longer to make than this bound, which knows no rules.
        RunPlan divided = plan;
        divided.shard = saving.parallel.shard;
        divided.mesh.shard = saving.parallel.shard_ranks.value_or(1);
        divided.offload = saving.offload;
        const bool may_fit = fits(memory_bound(costs_.memory(saving), divided));
        if (may_fit && rule_against([&] { divided = plan_of(context_, saving); })) continue;
        if (const auto needed = place(saving, divided, to)) {
            least = std::min(least, *needed);
        } else {
            may_have_room = true;
        }
    }
    if (may_have_room) return {};
    return least;
}

Expanded Search::expand(const std::vector<Choices>& groups) {
    Expanded expanded;
    const RunSpec first = with_choices(context_.spec, groups.front());
    if (const auto rule = rule_against([&] { check_mesh(first, context_.target); })) {
        for (const Choices& group : groups)
            expanded.refused.emplace_back(group, *rule);
        return expanded;
    }
    std::optional<double> without_room;  // the bytes that a smaller micro batch needs
    for (const Choices& group : groups) {
        if (without_room) {
            expanded.too_large.emplace_back(group, *without_room);
        } else {
            without_room = expand(group, expanded);
        }
    }
    return expanded;
}

void Search::start() {
    const auto groups = candidate_groups(space_, context_.spec, context_.target.world_size);
    const auto expanded =
        parallel_map(groups, [&](const std::vector<Choices>& each) { return expand(each); });
    std::vector<std::pair<Choices, Known>> fitting;
    for (const Expanded& each : expanded) {
        for (const auto& [choices, bytes] : each.too_large)
            drop(choices, bytes);
        for (const auto& [choices, rule] : each.refused)
            refuse(choices, rule);
        fitting.insert(fitting.end(), each.fitting.begin(), each.fitting.end());
    }
    std::stable_sort(fitting.begin(), fitting.end(), [](const auto& a, const auto& b) {
        return a.first.micro_batch_size < b.first.micro_batch_size;
    });
    for (const auto& [choices, known] : fitting)
        queue(choices, known);
}

void Search::queue(const Choices& choices, Known known) {
    known.candidate = candidates_.size();
    queue_.push(known);
    candidates_.push_back(choices);
}

void Search::replace(const Known& known, double bytes) {
    const Choices choices = choices_of(known);
    drop(choices, bytes);
    Expanded savings;
    save(choices, plan_of(context_, choices), bytes, savings);
    for (const auto& [saving, needed] : savings.too_large)
        drop(saving, needed);
    for (auto& [saving, next] : savings.fitting) {
        // Among the ranks of a node even more messages may take less time.
        if (!saving.parallel.shard_ranks) next.bound = std::max(next.bound, known.bound);
        queue(saving, next);
    }
}

Known Search::refine(const Known& known) {
    const Choices& choices = choices_of(known);
    const RunPlan plan = plan_of(context_, choices);
    Known next = known;
    if (known.level < Level::schedule) {
        const bool least = known.level == Level::flops;
        const LayerTimes times = least ? costs_.least_times(choices) : costs_.times(choices);
        const StepCosts costs = step_costs(times, costs_.memory(choices), plan, context_.hardware);
        const double seconds =
            known.level == Level::work ? schedule_bound(costs, plan) : work_bound(costs, plan);
        next.bound = std::max(known.bound, per_sample(seconds, choices) + known.moves);
        next.level = least                        ? Level::least_work
                     : known.level == Level::work ? Level::schedule
                                                  : Level::work;
        return next;
    }
    next.bytes = static_cast<double>(ends_memory(context_, plan));
    if (!is_wanted(next)) return next;
    next.estimate = std::make_shared<const StepEstimate>(time_of(context_, plan));
    next.bound = per_sample(next.estimate->step.seconds, choices);
    next.level = Level::simulated;
    return next;
}

bool Search::is_wanted(const Known& known) const {
    if (!fits(known.bytes)) return false;
    if (std::ssize(result_.best) < count_) return true;
    for (std::size_t i = 0; i < memory_corners.size(); ++i) {
        if (!result_.corners[i] && known.bytes <= memory_corners[i] * context_.capacity)
            return true;
    }
    return false;
}

void Search::accept(const Known& known) {
    const Choices& choices = choices_of(known);
    RunPlan plan = plan_of(context_, choices);
    const RankNeeds needs = mesh_memory(context_, plan);
    const auto bytes = static_cast<double>(needs.device);
    if (!fits(bytes)) return replace(known, bytes);
    if (const auto rule = host_shortage(context_, needs)) return refuse(choices, *rule);
    const Found found = {choices, std::move(plan), *known.estimate, needs.device, needs.host};
    for (std::size_t i = 0; i < memory_corners.size(); ++i) {
        if (!result_.corners[i] && bytes <= memory_corners[i] * context_.capacity)
            result_.corners[i] = found;
    }
    outcomes_.bounded(choices, known.bound);
    result_.points.push_back({known.bound, bytes, true});
    if (std::ssize(result_.best) == count_) return discarded_.push_back(known);
    outcomes_.among_best(choices);
    result_.best.push_back(found);
}

void Search::discard(const Known& known) {
    const Choices& choices = choices_of(known);
    if (!fits(known.bytes)) return replace(known, known.bytes);
    outcomes_.bounded(choices, known.bound);
    result_.points.push_back({known.bound, known.bytes, known.level == Level::simulated});
    discarded_.push_back(known);
}

void Search::bound_values() {
    const std::vector<Outcomes::Value> values = outcomes_.left_out();
    const auto bounds =
        parallel_map(values, [&](const Outcomes::Value& value) { return bound_of(value); });
    for (std::size_t i = 0; i < values.size(); ++i)
        outcomes_.set_bound(values[i], bounds[i]);
}

double Search::bound_of(const Outcomes::Value& value) {
    std::vector<Known> having;
    for (const Known& known : discarded_) {
        if (reported_values(choices_of(known))[value.key] == value.number) having.push_back(known);
    }
    Queue queue({}, std::move(having));
    constexpr int most = 2048;  // the bound is one after any number of them
    for (int tries = 0; tries < most && queue.top().level < Level::schedule; ++tries) {
        const Known known = queue.top();
        queue.pop();
        queue.push(refine(known));
    }
    return queue.top().bound;
}

Known Search::pop() {
    const Known first = queue_.top();
    queue_.pop();
    return first;
}

std::vector<Known> Search::take_equals() {
    std::vector<Known> equals;
    const Level level = queue_.top().level;
    const std::int64_t most = level < Level::schedule ? 16 * core_count() : core_count();
    while (!queue_.empty() && queue_.top().level == level && std::ssize(equals) < most) {
        const Known known = pop();
        if (is_wanted(known)) {
            equals.push_back(known);
        } else {
            discard(known);
        }
    }
    return equals;
}

SearchResult Search::run() {
    start();
    while (!queue_.empty()) {
        if (queue_.top().level == Level::simulated) {
            const Known known = pop();
            if (is_wanted(known)) {
                accept(known);
            } else {
                discard(known);
            }
            continue;
        }
        const std::vector<Known> equals = take_equals();
        for (const Known& known :
             parallel_map(equals, [&](const Known& equal) { return refine(equal); })) {
            if (known.level == Level::simulated) ++result_.counts.simulated;
            if (is_wanted(known)) {
                queue_.push(known);
            } else {
                discard(known);
            }
        }
    }
    result_.counts.candidates = std::ssize(candidates_);
    bound_values();
    result_.outcomes = outcomes_.take();
    return std::move(result_);
}

}  // namespace

SearchResult search(const SearchContext& context, const SearchSpace& space, std::int64_t count) {
    return Search(context, space, count).run();
}

Found evaluate(const SearchContext& context, const Choices& choices) {
    Found found = {.choices = choices, .plan = plan_of(context, choices), .estimate = {}};
    found.estimate = time_of(context, found.plan);
    const RankNeeds needs = mesh_memory(context, found.plan);
    found.required_bytes = needs.device;
    found.host_bytes = needs.host;
    return found;
}

}  // namespace gptrain
