#include "train/replicas.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/process.h"
#include "base/text.h"

namespace gptrain {

std::vector<std::int64_t> differing_replicas(const std::vector<ReplicaSum>& sums,
                                             const MeshShape& mesh) {
    using Place = std::pair<int, int>;  // pp, tp
    std::map<Place, std::map<std::int64_t, std::vector<std::int64_t>>> holders;
    for (std::int64_t rank = 0; rank < std::ssize(sums); ++rank) {
        const MeshPlace place = place_of(rank, mesh);
        const std::int64_t sum = sums[static_cast<std::size_t>(rank)].checksum;
        holders[{place.pp, place.tp}][sum].push_back(rank);
    }
    std::vector<std::int64_t> differing;
    for (const auto& [place, by_sum] : holders) {
        std::size_t replicas = 0;
        std::size_t most = 0;
        for (const auto& [sum, ranks] : by_sum) {
            replicas += ranks.size();
            most = std::max(most, ranks.size());
        }
        const bool majority = 2 * most > replicas;
        for (const auto& [sum, ranks] : by_sum)
            if (!majority || ranks.size() < most)
                differing.insert(differing.end(), ranks.begin(), ranks.end());
    }
    std::sort(differing.begin(), differing.end());
    return differing;
}

std::string describe_replicas(const std::vector<std::int64_t>& ranks,
                              const std::vector<ReplicaSum>& sums, const MeshShape& mesh) {
    std::string description;
    for (const std::int64_t rank : ranks) {
        description +=
            text(description.empty() ? "" : ", ", "rank ", rank, " (",
                 to_text(place_of(rank, mesh)), ") on ", sums[static_cast<std::size_t>(rank)].host);
    }
    return description;
}

std::string differing_weights(Engine& engine, const MpiSession& ranks, const MeshShape& mesh) {
    std::vector<ReplicaSum> sums;
    for (const std::string& line :
         ranks.exchange(text(engine.weights_checksum(), " ", host_name()))) {
        const std::size_t blank = line.find(' ');
        sums.push_back({parse_int(std::string_view(line).substr(0, blank)).value_or(0),
                        line.substr(blank + 1)});
    }
    return describe_replicas(differing_replicas(sums, mesh), sums, mesh);
}

}  // namespace gptrain
