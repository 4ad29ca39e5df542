#include "spec/fault_checks.h"

#include <algorithm>

#include "spec/plan_checks.h"

namespace gptrain {
namespace {

/// True if faults of this kind strike in calls that change files.
bool is_file_fault(InjectedFault::Kind kind) {
    using enum InjectedFault::Kind;
    return kind == no_space || kind == io_error || kind == short_write;
}

/// True if a fault of this kind can strike in a call that changes files.
bool takes_call(InjectedFault::Kind kind) {
    using enum InjectedFault::Kind;
    return is_file_fault(kind) || kind == kill || kind == stop || kind == error;
}

void check_keys(const InjectedFault& fault, const std::string& key) {
    const std::string_view kind = name_of(fault.kind);
    const bool file_fault = is_file_fault(fault.kind);
    const bool slow = fault.kind == InjectedFault::Kind::slow;
    require(fault.call > 0 || !file_fault, key, ".call: kind ", kind,
            " needs the number (from 1) of the call that fails");
    require(fault.call == 0 || takes_call(fault.kind), key, ".call: kind ", kind,
            " does not use call; remove it");
    require(fault.calls == 1 || file_fault, key, ".calls: kind ", kind,
            " does not use calls; remove it");
    require(fault.seconds > 0 || !slow, key, ".seconds: kind slow needs a number above 0");
    require(fault.seconds == 0 || slow, key, ".seconds: kind ", kind,
            " does not use seconds; remove it");
}

}  // namespace

bool has_fault(const RunSpec& spec, InjectedFault::Kind kind) {
    return spec.fault_injection &&
           std::any_of(spec.fault_injection->faults.begin(), spec.fault_injection->faults.end(),
                       [&](const auto& fault) { return fault.kind == kind; });
}

void check_replays(const RunSpec& spec) {
    require(spec.faults.replay_interval == 0 || spec.deterministic, "faults.replay_interval ",
            spec.faults.replay_interval,
            " compares two runs of a microbatch bit for bit, and deterministic is false; set one "
            "of them to its default");
}

void check_injected_faults(const RunSpec& spec, const MeshShape& mesh) {
    if (!spec.fault_injection) return;
    const std::vector<InjectedFault>& faults = spec.fault_injection->faults;
    for (std::size_t i = 0; i < faults.size(); ++i) {
        const std::string key = text("fault_injection.faults.", i);
        const InjectedFault& fault = faults[i];
        check_keys(fault, key);
        require(fault.kind != InjectedFault::Kind::miscompute || spec.faults.replay_interval > 0,
                key,
                ".kind miscompute happens in a microbatch that runs twice; set "
                "faults.replay_interval");
        require(fault.rank < mesh.size(), key, ".rank ", fault.rank,
                " is not on the mesh, whose ranks are 0 to ", mesh.size() - 1);
        require(fault.step <= spec.training.steps, key, ".step ", fault.step,
                " is above training.steps ", spec.training.steps, "; the fault would never strike");
    }
}

}  // namespace gptrain
