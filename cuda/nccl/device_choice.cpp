#include "cuda/nccl/device_choice.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>

#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

bool devices_are_shared(std::span<const std::string> uuids, bool allowed) {
    std::map<std::string_view, std::size_t> rank_of;
    for (std::size_t rank = 0; rank < uuids.size(); ++rank) {
        const auto [other, is_new] = rank_of.emplace(uuids[rank], rank);
        if (is_new) continue;
        if (allowed) return true;
        // All ranks see the same list and find the same pair.
        throw CommonError(
            ExitCode::usage,
            text("device: cuda: ranks ", other->second, " and ", rank, " have the same GPU (",
                 uuids[rank],
                 "): start one rank per GPU, with all GPUs or its own one in "
                 "CUDA_VISIBLE_DEVICES; for tests, GPTRAIN_SHARE_GPU=1 allows sharing"));
    }
    return false;
}

int device_of_rank(const MpiSession& session) {
    // Without any device, opening device 0 reports why.
    return session.local_rank() % std::max(visible_device_count(), 1);
}

ChosenDevice choose_device(const MpiSession& session) {
    ChosenDevice chosen;
    std::string uuid;
    session.run_on_all([&] {
        chosen.index = device_of_rank(session);
        uuid = open_device(chosen.index).uuid;
    });
    const char* share = std::getenv("GPTRAIN_SHARE_GPU");
    const bool allowed = share != nullptr && std::string_view(share) == "1";
    chosen.shared = devices_are_shared(session.exchange(uuid), allowed);
    return chosen;
}

}  // namespace gptrain::cuda
