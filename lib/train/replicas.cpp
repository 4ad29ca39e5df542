#include "train/replicas.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"

namespace gptrain {

std::vector<std::int64_t> odd_replicas(const std::vector<ReplicaSum>& of_ranks,
                                       const MeshShape& mesh) {
    using Place = std::pair<int, int>;  // pp, tp
    std::map<Place, std::map<std::int64_t, std::vector<std::int64_t>>> holders;
    for (std::int64_t rank = 0; rank < std::ssize(of_ranks); ++rank) {
        const MeshPlace place = place_of(rank, mesh);
        const std::int64_t sum = of_ranks[static_cast<std::size_t>(rank)].checksum;
        holders[{place.pp, place.tp}][sum].push_back(rank);
    }
    std::vector<std::int64_t> odd;
    for (const auto& [place, by_sum] : holders) {
        std::size_t replicas = 0;
        std::size_t most = 0;
        for (const auto& [sum, ranks] : by_sum) {
            replicas += ranks.size();
            most = std::max(most, ranks.size());
        }
        const bool majority = 2 * most > replicas;
        for (const auto& [sum, ranks] : by_sum)
            if (!majority || ranks.size() < most) odd.insert(odd.end(), ranks.begin(), ranks.end());
    }
    std::sort(odd.begin(), odd.end());
    return odd;
}

std::string describe_replicas(const std::vector<std::int64_t>& ranks,
                              const std::vector<ReplicaSum>& of_ranks, const MeshShape& mesh) {
    std::string words;
    for (const std::int64_t rank : ranks) {
        words += text(words.empty() ? "" : ", ", "rank ", rank, " (", to_text(place_of(rank, mesh)),
                      ") on ", of_ranks[static_cast<std::size_t>(rank)].host);
    }
    return words;
}

}  // namespace gptrain
