#include "train/call_faults.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

namespace gptrain {
namespace {

using Kind = InjectedFault::Kind;

bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder) {
    const auto& [rest, end] = std::mismatch(path.begin(), path.end(), folder.begin(), folder.end());
    return end == folder.end();
}

}  // namespace

void warn_of(int rank, const InjectedFault& fault, const std::string& where) {
    warn("injected fault: rank ", rank, ": ", name_of(fault.kind), " ", where);
}

void inject_process_fault(int rank, const InjectedFault& fault, const std::string& where) {
    warn_of(rank, fault, where);
    if (fault.kind == Kind::kill) ::kill(::getpid(), SIGKILL);
    if (fault.kind == Kind::stop) ::kill(::getpid(), SIGSTOP);
    if (fault.kind == Kind::error) fail(ExitCode::bug, "injected error ", where);
}

bool is_process_fault(Kind kind) {
    return kind == Kind::kill || kind == Kind::stop || kind == Kind::error;
}

CallFaults::CallFaults(const std::vector<InjectedFault>& faults, int rank,
                       std::filesystem::path checkpoints)
    : rank_(rank), folder_(std::move(checkpoints)) {
    for (const InjectedFault& fault : faults)
        faults_.push_back({fault});
    if (!faults_.empty()) intercept_calls(this);
}

CallFaults::~CallFaults() {
    if (!faults_.empty()) intercept_calls(nullptr);
    for (const auto& [fault, counts, seen] : faults_) {
        if (!counts || seen >= fault.call) continue;
        warn_of(rank_, fault,
                text("in call ", fault.call, " from step ", fault.step, " on did not strike: only ",
                     seen, " calls were made"));
    }
}

void CallFaults::begin_step(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    for (CountedFault& counted : faults_)
        counted.counts |= counted.fault.step == step;
}

CallFate CallFaults::intercept(std::string_view call, const std::filesystem::path& path) {
    if (!is_inside(path, folder_)) return {};
    const std::lock_guard lock(mutex_);
    CallFate fate;
    for (auto& [fault, counts, seen] : faults_) {
        if (!counts) continue;
        ++seen;
        if (seen < fault.call || seen - fault.call >= fault.calls) continue;
        const std::string where =
            text("in call ", seen, " from step ", fault.step, " on, ", call, " of ", path.string());
        if (is_process_fault(fault.kind)) {
            inject_process_fault(rank_, fault, where);
            continue;
        }
        if (seen == fault.call) warn_of(rank_, fault, where);
        if (fault.kind == Kind::short_write) fate.half = true;
        if (fault.kind == Kind::no_space) fate.error = ENOSPC;
        if (fault.kind == Kind::io_error) fate.error = EIO;
    }
    return fate;
}

}  // namespace gptrain
