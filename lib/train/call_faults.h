// Faults injected for tests in system calls that change something in the checkpoint folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_calls.h"
#include "spec/run_plan.h"

namespace gptrain {

/// Warns that a fault strikes.
void warn_of(int rank, const InjectedFault& fault, const std::string& where);

/// True for a fault of the whole process: it dies, stops, or reports a bug.
bool is_process_fault(InjectedFault::Kind kind);
void inject_process_fault(int rank, const InjectedFault& fault, const std::string& where);

/// Each fault counts calls on all threads, from the start of its step.
class CallFaults final : public CallInterceptor {
public:
    CallFaults(const std::vector<InjectedFault>& faults, int rank,
               std::filesystem::path checkpoints);
    /// Reports the faults whose step came but whose call did not, with the number of calls seen.
    ~CallFaults() override;

    void begin_step(std::int64_t step);
    CallFate intercept(std::string_view call, const std::filesystem::path& path) override;

private:
    struct CountedFault {
        InjectedFault fault;
        bool counts = false;
        std::int64_t seen = 0;
    };
    std::vector<CountedFault> faults_;
    int rank_;
    std::filesystem::path folder_;
    std::mutex mutex_;
};

}  // namespace gptrain
