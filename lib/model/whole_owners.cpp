// The owners of parameters that belong whole to one rank.
#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "model/layout.h"

namespace gptrain {
namespace {

/// A matrix and the vectors that go to the same owner.
struct Share {
    Axis owners;
    std::int64_t elements = 0;
    std::vector<Parameter*> parameters = {};
};

/// The shares of whole-parameter buckets. Each matrix takes the vectors before it; the last one of
/// a bucket also takes those after it. So new weights need few messages.
std::vector<Share> shares_of(ParameterLayout& layout) {
    std::vector<Share> shares;
    auto parameter = layout.parameters.begin();
    for (const Bucket& bucket : layout.buckets) {
        const std::size_t first = shares.size();
        bool open = false;
        for (; parameter != layout.parameters.end() && parameter->begin() < bucket.end;
             ++parameter) {
            if (!bucket.whole) continue;
            if (!open) shares.push_back({.owners = *bucket.sharing.owners});
            shares.back().parameters.push_back(&*parameter);
            shares.back().elements += parameter->shard.elements();
            open = !parameter->decays();
        }
        if (!open || shares.size() < first + 2) continue;
        const Share rest = std::move(shares.back());
        shares.pop_back();
        shares.back().elements += rest.elements;
        shares.back().parameters.insert(shares.back().parameters.end(), rest.parameters.begin(),
                                        rest.parameters.end());
    }
    return shares;
}

}  // namespace

void assign_owners(ParameterLayout& layout, const MeshShape& mesh) {
    std::vector<Share> shares = shares_of(layout);
    std::stable_sort(shares.begin(), shares.end(),
                     [](const Share& a, const Share& b) { return a.elements > b.elements; });
    using Load = std::pair<std::int64_t, int>;  // elements, rank
    std::map<Axis, std::priority_queue<Load, std::vector<Load>, std::greater<>>> loads_on;
    for (const Share& share : shares) {
        auto& loads = loads_on[share.owners];
        if (loads.empty()) {
            for (int rank = 0; rank < group_size(share.owners, mesh); ++rank)
                loads.emplace(0, rank);
        }
        const auto [elements, rank] = loads.top();
        loads.pop();
        for (Parameter* parameter : share.parameters)
            parameter->owner = rank;
        loads.emplace(elements + share.elements, rank);
    }
}

}  // namespace gptrain
