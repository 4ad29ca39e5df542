#include "planner/executed_mesh.h"

#include <algorithm>
#include <mutex>

#include "base/parallel_for.h"

namespace gptrain::test {
namespace {

bool same_cost(const StepCost& a, const StepCost& b) {
    for (int i = 0; i < axes; ++i)
        if (a.sent(static_cast<Axis>(i)) != b.sent(static_cast<Axis>(i))) return false;
    const Work& work = a.forward_and_backward;
    const Work& other = b.forward_and_backward;
    return a.memory == b.memory && a.microbatches == b.microbatches && work.gemms == other.gemms &&
           work.attention == other.attention && work.updates == other.updates;
}

class Execution {
public:
    Execution(const RunPlan& plan, const BackendMemory& needs) : plan_(plan), needs_(needs) {
        const auto size = static_cast<std::size_t>(plan.mesh.size());
        mesh_.class_of.resize(size);
        mesh_.ranks.resize(size);
        mesh_.lists.resize(static_cast<std::size_t>(plan.mesh.pipeline));
    }

    ExecutedMesh run() {
        for (RankClass& of : rank_classes(plan_))
            mesh_.classes.push_back({std::move(of), {}});
        std::vector<std::int64_t> others;
        for (const RankCost& own : mesh_.classes) {
            for (const std::int64_t rank : own.rank_class.ranks)
                mesh_.class_of[static_cast<std::size_t>(rank)] = &own;
            others.insert(others.end(), own.rank_class.ranks.begin() + 1,
                          own.rank_class.ranks.end());
        }
        const int threads = core_count();
        parallel_for(std::ssize(mesh_.classes), threads, [&](std::int64_t i) {
            RankCost& own = mesh_.classes[static_cast<std::size_t>(i)];
            own.cost = execute(own.rank_class.ranks.front());
        });
        parallel_for(std::ssize(others), threads,
                     [&](std::int64_t i) { compare(others[static_cast<std::size_t>(i)]); });
        return std::move(mesh_);
    }

private:
    StepCost execute(std::int64_t rank) {
        CommList list;
        MeshRank& own = mesh_.ranks[static_cast<std::size_t>(rank)];
        const MeshPlace place = place_of(rank, plan_.mesh);
        StepCost cost = measure_run(plan_, place, needs_, recording(list, own.groups));
        own.list = kept(std::move(list), place.pp);
        return cost;
    }

    /// Keeps one copy of equal lists.
    const CommList* kept(CommList list, int stage) {
        const std::lock_guard lock(mutex_);
        std::deque<CommList>& known = mesh_.lists[static_cast<std::size_t>(stage)];
        const auto same = std::find(known.begin(), known.end(), list);
        return same != known.end() ? &*same : &known.emplace_back(std::move(list));
    }

    void compare(std::int64_t rank) {
        const RankCost& own = *mesh_.class_of[static_cast<std::size_t>(rank)];
        const auto first = static_cast<std::size_t>(own.rank_class.ranks.front());
        const StepCost cost = execute(rank);
        if (same_cost(cost, own.cost) &&
            mesh_.ranks[static_cast<std::size_t>(rank)].list == mesh_.ranks[first].list)
            return;
        const std::lock_guard lock(mutex_);
        mesh_.strangers.push_back(rank);
    }

    const RunPlan& plan_;
    const BackendMemory& needs_;
    std::mutex mutex_;
    ExecutedMesh mesh_;
};

}  // namespace

ExecutedMesh execute_every_rank(const RunPlan& plan, const BackendMemory& needs) {
    return Execution(plan, needs).run();
}

}  // namespace gptrain::test
