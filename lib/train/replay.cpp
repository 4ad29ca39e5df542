#include "train/replay.h"

#include <algorithm>

#include "base/process.h"
#include "base/text.h"
#include "train/replicas.h"

namespace gptrain {

Difference first_difference(const std::vector<SeenSum>& first, const std::vector<SeenSum>& second) {
    GPTRAIN_CHECK(first.size() == second.size(), "a microbatch has ", first.size(),
                  " values, and then ", second.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
        if (first[i].sum == second[i].sum) continue;
        return first[i].what == Executor::Seen::input ? Difference::input : Difference::result;
    }
    return Difference::none;
}

std::vector<std::int64_t> ranks_at_fault(const std::vector<Difference>& ranks) {
    for (const Difference wanted : {Difference::result, Difference::input}) {
        std::vector<std::int64_t> found;
        for (std::size_t rank = 0; rank < ranks.size(); ++rank)
            if (ranks[rank] == wanted) found.push_back(static_cast<std::int64_t>(rank));
        if (!found.empty()) return found;
    }
    return {};
}

std::string differing_replays(Engine& engine, const InjectedFaults* faults, const StepBatch& batch,
                              std::int64_t expert_slices, const MpiSession& ranks,
                              const MeshShape& mesh) {
    std::vector<SeenSum> first;
    engine.run_alone(batch, expert_slices, [&](Executor::Seen what, const Tensor& values) {
        first.push_back({what, engine.checksum(values)});
    });
    const std::int64_t results = std::count_if(first.begin(), first.end(), [](const SeenSum& seen) {
        return seen.what == Executor::Seen::result;
    });
    std::vector<SeenSum> second;
    std::int64_t result = 0;
    engine.run_alone(batch, expert_slices, [&](Executor::Seen what, const Tensor& values) {
        if (faults != nullptr && what == Executor::Seen::result)
            faults->miscompute(batch.step, result++, results, values);
        second.push_back({what, engine.checksum(values)});
    });
    std::vector<Difference> differences;
    std::vector<std::string> hosts;
    const auto own = static_cast<std::int64_t>(first_difference(first, second));
    for (const std::string& line : ranks.exchange(text(own, " ", host_name()))) {
        const std::size_t blank = line.find(' ');
        differences.push_back(static_cast<Difference>(
            parse_int(std::string_view(line).substr(0, blank)).value_or(0)));
        hosts.push_back(line.substr(blank + 1));
    }
    return describe_ranks(ranks_at_fault(differences), hosts, mesh);
}

}  // namespace gptrain
