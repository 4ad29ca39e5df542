#include "train/replicas.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/process.h"
#include "base/text.h"

namespace gptrain {
namespace {

/// The ranks that have a checksum, by checksum.
using Holders = std::map<std::int64_t, std::vector<std::int64_t>>;

/// The ranks outside the majority; all ranks if there is none.
std::set<std::int64_t> odd_ones(const Holders& by_sum) {
    std::size_t replicas = 0;
    std::size_t most = 0;
    for (const auto& [sum, ranks] : by_sum) {
        replicas += ranks.size();
        most = std::max(most, ranks.size());
    }
    std::set<std::int64_t> odd;
    for (const auto& [sum, ranks] : by_sum)
        if (2 * most <= replicas || ranks.size() < most) odd.insert(ranks.begin(), ranks.end());
    return odd;
}

}  // namespace

std::vector<std::int64_t> differing_replicas(const std::vector<ReplicaSum>& sums,
                                             const MeshShape& mesh) {
    std::set<std::int64_t> differing;
    for (std::size_t axis = 0; axis < axes; ++axis) {
        std::map<std::int64_t, Holders> groups;
        for (std::int64_t rank = 0; rank < std::ssize(sums); ++rank) {
            const RankGroup group = group_on(static_cast<Axis>(axis), rank, mesh);
            const std::int64_t sum = sums[static_cast<std::size_t>(rank)].checksums[axis];
            groups[group.id][sum].push_back(rank);
        }
        for (const auto& [group, by_sum] : groups)
            differing.merge(odd_ones(by_sum));
    }
    return {differing.begin(), differing.end()};
}

std::string describe_ranks(const std::vector<std::int64_t>& ranks,
                           const std::vector<std::string>& hosts, const MeshShape& mesh) {
    std::string description;
    for (const std::int64_t rank : ranks) {
        description +=
            text(description.empty() ? "" : ", ", "rank ", rank, " (",
                 to_text(place_of(rank, mesh)), ") on ", hosts[static_cast<std::size_t>(rank)]);
    }
    return description;
}

std::string differing_weights(Engine& engine, const MpiSession& ranks, const MeshShape& mesh) {
    std::string own;
    for (const std::int64_t checksum : engine.weights_checksums())
        own += text(checksum, " ");
    std::vector<ReplicaSum> sums;
    std::vector<std::string> hosts;
    for (const std::string& line : ranks.exchange(own + host_name())) {
        ReplicaSum& rank = sums.emplace_back();
        std::string_view rest = line;
        for (std::int64_t& checksum : rank.checksums) {
            const std::size_t blank = rest.find(' ');
            checksum = parse_int(rest.substr(0, blank)).value_or(0);
            rest.remove_prefix(blank + 1);
        }
        hosts.emplace_back(rest);
    }
    return describe_ranks(differing_replicas(sums, mesh), hosts, mesh);
}

}  // namespace gptrain
