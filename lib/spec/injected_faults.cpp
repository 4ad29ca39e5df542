#include "spec/injected_faults.h"

#include "spec/plan_checks.h"

namespace gptrain {
namespace {

/// True if a fault of this kind can strike in a call that changes files.
bool takes_call(InjectedFault::Kind kind) {
    using enum InjectedFault::Kind;
    return is_of_files(kind) || kind == kill || kind == stop || kind == error;
}

void check_keys(const InjectedFault& fault, const std::string& key) {
    const std::string_view kind = name_of(fault.kind);
    const bool of_files = is_of_files(fault.kind);
    const bool slow = fault.kind == InjectedFault::Kind::slow;
    require(fault.call > 0 || !of_files, key, ".call: kind ", kind,
            " needs the number, from 1 on, of the call that is to fail");
    require(fault.call == 0 || takes_call(fault.kind), key, ".call: kind ", kind,
            " happens in no call; leave it out");
    require(fault.calls == 1 || of_files, key, ".calls: kind ", kind,
            " happens in no calls in a row; leave it out");
    require(fault.seconds > 0 || !slow, key, ".seconds: kind slow needs a number above 0");
    require(fault.seconds == 0 || slow, key, ".seconds: kind ", kind,
            " takes no time; leave it out");
}

}  // namespace

bool is_of_files(InjectedFault::Kind kind) {
    using enum InjectedFault::Kind;
    return kind == no_space || kind == io_error || kind == short_write;
}

void check_injected_faults(const RunSpec& spec, const MeshShape& mesh) {
    if (!spec.fault_injection) return;
    const std::vector<InjectedFault>& faults = spec.fault_injection->faults;
    for (std::size_t i = 0; i < faults.size(); ++i) {
        const std::string key = text("fault_injection.faults.", i);
        const InjectedFault& fault = faults[i];
        check_keys(fault, key);
        require(fault.rank < mesh.size(), key, ".rank ", fault.rank,
                " is not on the mesh, whose ranks are 0 to ", mesh.size() - 1);
        require(fault.step <= spec.training.steps, key, ".step ", fault.step,
                " is above training.steps ", spec.training.steps, "; the fault would not happen");
    }
}

}  // namespace gptrain
