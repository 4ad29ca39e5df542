#include "agreed_attention.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace gptrain {

cuda::AttentionChoice agreed_attention(const std::vector<std::string>& faults,
                                       cuda::AttentionChoice wanted, int rank) {
    const auto fault = std::find_if(faults.begin(), faults.end(),
                                    [](const std::string& each) { return !each.empty(); });
    if (fault == faults.end() || wanted == cuda::AttentionChoice::portable) return wanted;
    if (wanted == cuda::AttentionChoice::sm90) {
        fail(ExitCode::usage, "GPTRAIN_CUDA_ATTENTION=sm90: these kernels failed their check (",
             *fault, "); unset it to use the portable ones");
    }
    if (rank == 0) {
        warn("the attention kernels for sm_90a failed their check (", *fault,
             "); using the portable ones; please report this");
    }
    return cuda::AttentionChoice::portable;
}

}  // namespace gptrain
