#include "search/search.h"

#include <algorithm>
#include <array>
#include <queue>
#include <thread>

#include "base/parallel_for.h"
#include "base/text.h"
#include "search/bounds.h"

namespace gptrain {
namespace {

/// How much is known of a candidate. Each level's bound is at least that of the one before.
enum class Level { flops, work, schedule, simulated };

struct Node {
    Choices choices;
    double bound = 0;  ///< seconds per sample
    double bytes = 0;  ///< at least
    Level level = Level::flops;
    std::int64_t number = 0;  ///< in the order of the space: decides between equal bounds
    StepEstimate estimate = {};
};

struct Later {
    bool operator()(const Node& a, const Node& b) const {
        return std::pair(a.bound, a.number) > std::pair(b.bound, b.number);
    }
};

std::array<KeyValue, 8> values_of(const Choices& choices) {
    const ParallelSpec& parallel = choices.parallel;
    return {{{"tensor", text(parallel.tensor)},
             {"pipeline", text(parallel.pipeline)},
             {"context", text(parallel.context)},
             {"overlap_tensor", std::string(name_of(parallel.overlap_tensor))},
             {"micro_batch_size", text(choices.micro_batch_size)},
             {"recompute", std::string(name_of(choices.recompute))},
             {"schedule", std::string(name_of(parallel.schedule))},
             {"virtual_stages", text(parallel.virtual_stages)}}};
}

/// What becomes of each value of each key.
class Outcomes {
public:
    void refused(const Choices& choices, const std::string& rule) {
        for_each(choices, [&](ValueOutcome& outcome) {
            if (outcome.rule.empty()) outcome.rule = rule;
        });
    }
    void too_large(const Choices& choices, double bytes) {
        for_each(choices, [&](ValueOutcome& outcome) {
            outcome.allowed = true;
            outcome.least_bytes = std::min(outcome.least_bytes, bytes);
        });
    }
    void bounded(const Choices& choices, double bound) {
        for_each(choices, [&](ValueOutcome& outcome) {
            outcome.allowed = outcome.fits = true;
            outcome.bound = std::min(outcome.bound, bound);
        });
    }
    void among_best(const Choices& choices) {
        for_each(choices, [](ValueOutcome& outcome) { outcome.among_best = true; });
    }
    /// Gives `bound` to each value that fits and is not among the best.
    template <class Bound>
    void set_bounds(const Bound& bound) {
        for (auto& [value, outcome] : outcomes_) {
            if (outcome.fits && !outcome.among_best) outcome.bound = bound(value);
        }
    }
    std::vector<std::pair<KeyValue, ValueOutcome>> take() { return std::move(outcomes_); }

private:
    template <class Change>
    void for_each(const Choices& choices, const Change& change) {
        for (const KeyValue& value : values_of(choices)) {
            const auto found =
                std::find_if(outcomes_.begin(), outcomes_.end(),
                             [&](const auto& outcome) { return outcome.first == value; });
            if (found != outcomes_.end()) {
                change(found->second);
            } else {
                change(outcomes_.emplace_back(value, ValueOutcome{}).second);
            }
        }
    }

    std::vector<std::pair<KeyValue, ValueOutcome>> outcomes_;
};

/// The candidates of some groups, sorted out.
struct Expanded {
    std::vector<Node> nodes;
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
    /// Queues those of the groups, which have one micro batch size.
    void start(const std::vector<Choices>& groups);
    Expanded expand(const Choices& group);
    /// The node with better bounds.
    Node refine(const Node& node);
    /// True if it could be among the results that are still missing.
    bool is_wanted(const Node& node) const;
    /// Takes the first nodes of the queue that can be refined at the same time, without those that
    /// are not wanted.
    std::vector<Node> take_equals();
    void accept(const Node& node);
    void discard(const Node& node);
    /// The bound of all discarded candidates with a value, better than their own ones.
    double bound_of(const KeyValue& value);
    void drop(const Choices& choices, double bytes) {
        ++result_.counts.too_large;
        outcomes_.too_large(choices, bytes);
    }
    StepCosts step_costs_of(const Choices& choices, const RunPlan& plan) {
        return step_costs(costs_.times(choices), costs_.memory(choices), plan, context_.hardware);
    }
    bool fits(double bytes) const { return bytes <= context_.capacity; }

    const SearchContext& context_;
    const SearchSpace& space_;
    std::int64_t count_;
    LayerCostTable costs_;
    std::vector<std::pair<Choices, double>> without_room_;  ///< groups, with the bytes they need
    std::priority_queue<Node, std::vector<Node>, Later> queue_;
    std::vector<Node> discarded_;  ///< they may fit, but others are faster
    Outcomes outcomes_;
    SearchResult result_;
};

double per_sample(double seconds, const Choices& choices) {
    return seconds / static_cast<double>(choices.global_batch_size);
}

int thread_count() {
    return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

Expanded Search::expand(const Choices& group) {
    Expanded expanded;
    std::vector<Choices> seen;  // with the layers of their chunks
    for (const Choices& choices : candidates_of(group, space_, context_.spec.model.num_layers)) {
        try {
            const RunPlan plan = plan_of(context_, choices);
            seen.push_back(choices);
            seen.back().parallel.layers = plan.chunk_layers;
            if (plan.mesh.data * plan.mesh.context == 1)  // nobody to share the optimizer with
                seen.back().parallel.shard_optimizer = true;
            if (std::find(seen.begin(), seen.end() - 1, seen.back()) != seen.end() - 1) continue;
            const double bytes = memory_bound(costs_.memory(choices), plan);
            if (!fits(bytes)) {
                expanded.too_large.emplace_back(choices, bytes);
                continue;
            }
            const double seconds = work_bound(ideal_costs(plan, context_.hardware), plan);
            expanded.nodes.push_back({choices, per_sample(seconds, choices), bytes});
        } catch (const Error& error) {
            expanded.refused.emplace_back(choices, error.what());
        }
    }
    return expanded;
}

/// The same mesh and modes with any micro batch size.
Choices without_micro_batch(Choices group) {
    group.micro_batch_size = 0;
    return group;
}

void Search::start() {
    std::map<std::int64_t, std::vector<Choices>> by_micro_batch;
    for (const Choices& group :
         candidate_groups(space_, context_.spec, context_.target.world_size)) {
        try {
            plan_of(context_, group);
            by_micro_batch[group.micro_batch_size].push_back(group);
        } catch (const Error& error) {
            ++result_.counts.refused;
            outcomes_.refused(group, error.what());
        }
    }
    // What has no room for a micro batch has none for a larger one.
    for (auto& [size, groups] : by_micro_batch) {
        std::erase_if(groups, [&](const Choices& group) {
            const auto found = std::find_if(
                without_room_.begin(), without_room_.end(),
                [&](const auto& known) { return known.first == without_micro_batch(group); });
            if (found == without_room_.end()) return false;
            drop(group, found->second);
            return true;
        });
        start(groups);
    }
}

void Search::start(const std::vector<Choices>& groups) {
    std::vector<Expanded> expanded(groups.size());
    parallel_for(std::ssize(groups), thread_count(), [&](std::int64_t i) {
        const auto index = static_cast<std::size_t>(i);
        expanded[index] = expand(groups[index]);
    });
    for (std::size_t i = 0; i < groups.size(); ++i) {
        const Expanded& each = expanded[i];
        double least = std::numeric_limits<double>::infinity();
        for (const auto& [choices, bytes] : each.too_large) {
            drop(choices, bytes);
            least = std::min(least, bytes);
        }
        if (each.nodes.empty()) without_room_.emplace_back(without_micro_batch(groups[i]), least);
        for (const auto& [choices, rule] : each.refused) {
            ++result_.counts.refused;
            outcomes_.refused(choices, rule);
        }
        for (Node node : each.nodes) {
            node.number = result_.counts.candidates++;
            queue_.push(std::move(node));
        }
    }
}

Node Search::refine(const Node& node) {
    const RunPlan plan = plan_of(context_, node.choices);
    Node next = node;
    if (node.level != Level::schedule) {
        const StepCosts costs = step_costs_of(node.choices, plan);
        const bool first = node.level == Level::flops;
        const double seconds = first ? work_bound(costs, plan) : schedule_bound(costs, plan);
        next.bound = std::max(node.bound, per_sample(seconds, node.choices));
        next.level = first ? Level::work : Level::schedule;
        return next;
    }
    next.bytes = static_cast<double>(ends_memory(context_, plan));
    if (!is_wanted(next)) return next;
    next.estimate = time_of(context_, plan);
    next.bound = per_sample(next.estimate.step.seconds, node.choices);
    next.level = Level::simulated;
    return next;
}

bool Search::is_wanted(const Node& node) const {
    if (!fits(node.bytes)) return false;
    if (std::ssize(result_.best) < count_) return true;
    for (std::size_t i = 0; i < memory_corners.size(); ++i) {
        if (!result_.corners[i] && node.bytes <= memory_corners[i] * context_.capacity) return true;
    }
    return false;
}

void Search::accept(const Node& node) {
    RunPlan plan = plan_of(context_, node.choices);
    const std::int64_t required = mesh_memory(context_, plan);
    const auto bytes = static_cast<double>(required);
    if (!fits(bytes)) return drop(node.choices, bytes);
    const Found found = {node.choices, std::move(plan), node.estimate, required};
    for (std::size_t i = 0; i < memory_corners.size(); ++i) {
        if (!result_.corners[i] && bytes <= memory_corners[i] * context_.capacity)
            result_.corners[i] = found;
    }
    outcomes_.bounded(node.choices, node.bound);
    result_.points.push_back({node.bound, bytes, true});
    if (std::ssize(result_.best) == count_) return discarded_.push_back(node);
    outcomes_.among_best(node.choices);
    result_.best.push_back(found);
}

void Search::discard(const Node& node) {
    if (!fits(node.bytes)) return drop(node.choices, node.bytes);
    outcomes_.bounded(node.choices, node.bound);
    result_.points.push_back({node.bound, node.bytes, node.level == Level::simulated});
    discarded_.push_back(node);
}

double Search::bound_of(const KeyValue& value) {
    std::vector<Node> nodes;
    for (const Node& node : discarded_) {
        const auto values = values_of(node.choices);
        if (std::find(values.begin(), values.end(), value) != values.end()) nodes.push_back(node);
    }
    std::priority_queue<Node, std::vector<Node>, Later> queue({}, std::move(nodes));
    constexpr int most = 2048;  // the bound is one after any number of them
    for (int tries = 0; tries < most && queue.top().level < Level::schedule; ++tries) {
        Node node = queue.top();
        queue.pop();
        queue.push(refine(node));
    }
    return queue.top().bound;
}

std::vector<Node> Search::take_equals() {
    std::vector<Node> nodes;
    const Level level = queue_.top().level;
    const std::int64_t most = level < Level::schedule ? 16 * thread_count() : thread_count();
    while (!queue_.empty() && queue_.top().level == level && std::ssize(nodes) < most) {
        if (is_wanted(queue_.top())) {
            nodes.push_back(queue_.top());
        } else {
            discard(queue_.top());
        }
        queue_.pop();
    }
    return nodes;
}

SearchResult Search::run() {
    start();
    while (!queue_.empty()) {
        if (queue_.top().level == Level::simulated) {
            if (is_wanted(queue_.top())) {
                accept(queue_.top());
            } else {
                discard(queue_.top());
            }
            queue_.pop();
            continue;
        }
        const std::vector<Node> nodes = take_equals();
        std::vector<Node> refined(nodes.size());
        parallel_for(std::ssize(nodes), thread_count(), [&](std::int64_t i) {
            refined[static_cast<std::size_t>(i)] = refine(nodes[static_cast<std::size_t>(i)]);
        });
        for (Node& node : refined) {
            if (node.level == Level::simulated) ++result_.counts.simulated;
            if (is_wanted(node)) {
                queue_.push(std::move(node));
            } else {
                discard(node);
            }
        }
    }
    outcomes_.set_bounds([&](const KeyValue& value) { return bound_of(value); });
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
    found.required_bytes = mesh_memory(context, found.plan);
    return found;
}

}  // namespace gptrain
