// Checks, before any memory is allocated, that the machine and its devices can hold a plan.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/memory.h"
#include "comm/mpi_session.h"
#include "engine/memory_limits.h"

namespace gptrain {

/// Host memory that a process takes besides its plan: libraries, threads, the program's own objects
/// (measured in docs/performance.md).
constexpr std::int64_t host_reserve = std::int64_t{128} << 20;

/// Device memory that libraries take after the check, however much they have taken before it:
/// cuBLASLt's code, and what NCCL's other algorithms need.
constexpr std::int64_t device_floor = std::int64_t{256} << 20;

/// The device memory to leave to driver and libraries, which have already `taken` some of it.
std::int64_t device_reserve(std::int64_t reserve, std::int64_t taken);

/// Host memory of a process with this plan. `in_host_memory`: the process computes in host memory.
std::int64_t host_bytes(const MemoryPlan& plan, bool in_host_memory);

/// The memory that a rank takes under a limit.
struct MemoryClaim {
    MemoryLimit limit;
    std::int64_t bytes = 0;
};

struct RankClaims {
    int node = 0;      ///< equal for the ranks of one machine only
    std::string host;  ///< name of the machine
    std::vector<MemoryClaim> claims;
};

/// A limit under which ranks need more than is available.
struct MemoryShortage {
    std::string limit;
    std::string host;
    std::int64_t ranks = 0;  ///< ranks that share the limit
    std::int64_t needed = 0;
    std::int64_t available = 0;
};

/// The shortage with the most bytes missing; nothing if all ranks fit.
std::optional<MemoryShortage> find_shortage(std::span<const RankClaims> claims);

/// Memory limits of this rank, read by the constructor.
class MemoryCheck {
public:
    MemoryCheck(const Backend& backend, const MpiSession& ranks);

    /// The worst shortage of any rank, the same on all. All ranks call it, each with its own plan.
    std::optional<MemoryShortage> find_shortage(const MemoryPlan& plan) const;
    /// Throws a CommonError (usage) if there is a shortage. The message ends with `advice`, which
    /// suggests what would fit; all ranks call `advice` together.
    void require(const MemoryPlan& plan, const std::function<std::string()>& advice) const;

private:
    const MpiSession& ranks_;
    std::vector<MemoryLimit> host_;
    bool in_host_memory_;
    std::optional<MemoryLimit> device_;
    std::int64_t device_reserve_ = 0;
};

/// "35.0 GiB needed (128 MiB for libraries), 23.5 GiB available (LIMIT)".
std::string needed_and_available(std::int64_t needed, std::int64_t reserve, std::int64_t available,
                                 std::string_view limit);

}  // namespace gptrain
