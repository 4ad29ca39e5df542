#include "cuda/mesh/device_choice.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>

#include "base/text.h"
#include "cuda/mesh/mesh.h"
#include "cuda/runtime/libraries.h"
#include "cuda/runtime/probe.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {
namespace {

void share_over_nccl() {
    const std::string fault = fault_of_shared_nccl();
    if (!fault.empty()) fail(ExitCode::usage, "device: cuda: GPTRAIN_SHARE_GPU=nccl: ", fault);
    set_shared_nccl_environment();
}

}  // namespace

std::string fault_of_shared_nccl() {
    constexpr int oldest = NCCL_VERSION(2, 30, 0);
    int version = 0;
    open_nccl(driver_version()).get_version(&version);
    if (version >= oldest) return {};
    return text("NCCL ", nccl_version_text(version),
                " cannot connect ranks that share a GPU; set GPTRAIN_CUDA_LIBS to the folder of "
                "2.30 or newer");
}

Sharing sharing_from_environment() {
    const char* value = std::getenv("GPTRAIN_SHARE_GPU");
    const std::string_view word = value == nullptr ? "" : value;
    if (word.empty()) return Sharing::none;
    if (word == "1") return Sharing::mpi;
    if (word == "nccl") return Sharing::nccl;
    if (word == "peer") return Sharing::peer;
    fail(ExitCode::usage, "GPTRAIN_SHARE_GPU=", word, ": set it to 1, nccl or peer, or unset it");
}

bool devices_are_shared(std::span<const std::string> uuids, bool allowed) {
    std::map<std::string_view, std::size_t> rank_of;
    for (std::size_t rank = 0; rank < uuids.size(); ++rank) {
        const auto [other, is_new] = rank_of.emplace(uuids[rank], rank);
        if (is_new) continue;
        if (allowed) return true;
        // All ranks see the same list and find the same pair.
        throw CommonError(ExitCode::usage,
                          text("device: cuda: ranks ", other->second, " and ", rank,
                               " have the same GPU (", uuids[rank],
                               "): start one rank per GPU, with all GPUs or its own one in "
                               "CUDA_VISIBLE_DEVICES; for tests, GPTRAIN_SHARE_GPU=1, nccl or peer "
                               "allows sharing"));
    }
    return false;
}

int device_of_rank(const MpiSession& session) {
    // Without any device, opening device 0 reports why.
    return session.local_rank() % std::max(visible_device_count(), 1);
}

ChosenDevice choose_device(const MpiSession& session) {
    ChosenDevice chosen;
    Sharing allowed = Sharing::none;
    std::string uuid;
    session.run_on_all([&] {
        allowed = sharing_from_environment();
        chosen.index = device_of_rank(session);
        uuid = open_device(chosen.index).uuid;
    });
    if (devices_are_shared(session.exchange(uuid), allowed != Sharing::none))
        chosen.sharing = allowed;
    if (chosen.sharing == Sharing::nccl) session.run_on_all(share_over_nccl);
    return chosen;
}

}  // namespace gptrain::cuda
