#include "agreed_attention.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace gptrain {
namespace {

/// The kernels take milliseconds, a process that opens the device seconds.
constexpr std::chrono::seconds time_limit(25);
constexpr std::chrono::seconds second_limit(150);

}  // namespace

bool checks_attention(const std::vector<std::string>& nodes, int rank) {
    const std::string& own = nodes[static_cast<std::size_t>(rank)];
    return !own.empty() && std::find(nodes.begin(), nodes.end(), own) - nodes.begin() == rank;
}

std::string attention_fault(
    const std::function<AttentionCheck(std::chrono::seconds limit)>& check) {
    const AttentionCheck first = check(time_limit);
    if (!first.timed_out) return first.fault;
    warn("the check of the attention kernels did not end in ", time_limit.count(),
         " seconds; it runs once more, for at most ", second_limit.count());
    return check(second_limit).fault;
}

std::string attention_fault_or_recall(
    const NodeCache& cache, const std::string& device, const std::string& program,
    const std::function<AttentionCheck(std::chrono::seconds limit)>& check) {
    if (device.empty()) return attention_fault(check);
    const std::string question = "attention kernels on " + device;
    if (cache.find(question, program)) return "";
    std::string fault = attention_fault(check);
    if (fault.empty()) cache.keep(question, program, "sound");
    return fault;
}

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
