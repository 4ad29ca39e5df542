#include "cuda/mesh/start_checks.h"

#include <algorithm>

#include "base/at.h"
#include "base/error.h"
#include "base/text.h"
#include "cuda/runtime/libraries.h"

namespace gptrain::cuda {

void check_multiprocessors(const std::vector<HeldBlocks>& held, std::int64_t ranks_of_device,
                           std::int64_t multiprocessors) {
    std::int64_t sum = 0;
    std::string axes;
    for (const HeldBlocks& each : held) {
        sum += ranks_of_device * each.blocks;
        axes += text(axes.empty() ? "" : " + ", name_of(each.axis), " ", each.blocks);
    }
    if (sum < multiprocessors) return;
    fail(ExitCode::usage, "device: cuda: messages could hold all ", multiprocessors,
         " multiprocessors of the GPU at once (thread blocks: ", axes,
         ranks_of_device > 1 ? text(", of ", ranks_of_device, " ranks") : "",
         "), and then nothing else can run; set NCCL_MAX_CTAS to a smaller number, or use fewer "
         "axes of the mesh");
}

std::string queue_warning(const CommunicatorCounts& communicators, std::int64_t queues) {
    const std::int64_t streams = 2 + 3 * communicators.nccl + 2 * communicators.peer;
    if (streams <= queues) return {};
    return text("CUDA_DEVICE_MAX_CONNECTIONS is ", queues, ", but this rank has ", streams,
                " streams: computation may wait behind messages");
}

std::string placement_warning(const std::vector<std::string>& nodes, const MeshShape& shape) {
    for (std::int64_t rank = 0; rank < std::ssize(nodes); ++rank) {
        const std::int64_t first = rank / shape.tensor * shape.tensor;
        if (at(nodes, first) == at(nodes, rank)) continue;
        return text("parallel.tensor: ", shape.tensor, ": ranks ", first, " (", at(nodes, first),
                    ") and ", rank, " (", at(nodes, rank),
                    ") share every layer over the network, which is slow; place consecutive ranks "
                    "on the same node (srun --distribution=block, mpirun --map-by slot), or let "
                    "parallel.tensor divide the ranks of a node");
    }
    return {};
}

void check_same_nccl(const MpiSession& session, int version) {
    const std::vector<std::string> versions = session.exchange(nccl_version_text(version));
    const auto other = std::find_if(versions.begin(), versions.end(),
                                    [&](const auto& each) { return each != versions.front(); });
    if (other == versions.end()) return;
    throw CommonError(ExitCode::usage,
                      text("device: cuda: rank 0 has loaded NCCL ", versions.front(), " and rank ",
                           other - versions.begin(), " NCCL ", *other,
                           "; install the same one on all nodes, or set GPTRAIN_CUDA_LIBS"));
}

}  // namespace gptrain::cuda
