#include "engine/text_scores.h"

#include <cmath>
#include <cstring>
#include <string>

#include "engine/text_batches.h"

namespace gptrain {
namespace {

/// A token's score on its way to rank 0.
struct ScoreEntry {
    std::int64_t request = 0;
    std::int64_t position = 0;  ///< as in ScoredToken
    TokenScore score;
};

/// log p of a row's target, from its largest logit and its sums.
TokenScore score_of(float maximum, float sum, float target) {
    return {double{target} - double{maximum} - std::log(static_cast<double>(sum)),
            target >= maximum};
}

/// Puts the entries of all ranks in their places, on rank 0.
std::vector<TokenScores> collect(const MpiSession& ranks, std::span<const ScoreRequest> requests,
                                 std::span<const ScoreEntry> mine) {
    const auto bytes = std::as_bytes(mine);
    const std::vector<std::string> all =
        ranks.gather({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    std::vector<TokenScores> scores;
    if (ranks.rank() != 0) return scores;
    for (const ScoreRequest& request : requests)
        scores.emplace_back(static_cast<std::size_t>(request.scored));
    for (const std::string& part : all) {
        for (std::size_t at = 0; at < part.size(); at += sizeof(ScoreEntry)) {
            ScoreEntry entry;
            std::memcpy(&entry, part.data() + at, sizeof entry);
            const auto index = static_cast<std::size_t>(entry.request);
            const ScoreRequest& request = requests[index];
            const std::int64_t first = std::ssize(request.ids) - 1 - request.scored;
            scores[index].at(static_cast<std::size_t>(entry.position - first)) = entry.score;
        }
    }
    return scores;
}

}  // namespace

std::vector<TokenScores> score_requests(const ForwardPasses& passes, const MpiSession& ranks,
                                        std::span<const ScoreRequest> requests,
                                        ActionListener& listener,
                                        const std::function<bool(std::int64_t)>& go_on) {
    const MeshPlace& place = passes.place();
    std::vector<ScoreEntry> entries;
    const bool finished =
        for_each_batch(requests, passes.plan(), place, [&](const TextBatch& batch) {
            const auto take = [&](std::size_t microbatch, std::span<const float> maximum,
                                  std::span<const float> sums) {
                if (place.tp != 0) return;
                for (const ScoredToken& token : batch.scored[microbatch])
                    entries.push_back({static_cast<std::int64_t>(token.request), token.position,
                                       score_of(maximum[token.row], sums[2 * token.row],
                                                sums[2 * token.row + 1])});
            };
            passes.score(batch.microbatches, batch.length, listener, take);
            return go_on(batch.done);
        });
    if (!finished) return {};
    return collect(ranks, requests, entries);
}

}  // namespace gptrain
