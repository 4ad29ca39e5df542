// Whether the machine and its devices have the memory of a plan, asked before any of it is taken.
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

/// Host memory that a process takes beside its plan: libraries, threads, the program's own objects
/// (docs/performance.md has the measurement).
constexpr std::int64_t host_reserve = std::int64_t{128} << 20;

/// Host memory that a process with this plan takes. `in_host_memory`: it computes there.
std::int64_t host_bytes(const MemoryPlan& plan, bool in_host_memory);

/// What a rank takes under a limit.
struct MemoryClaim {
    MemoryLimit limit;
    std::int64_t bytes = 0;
};

struct RankClaims {
    int node = 0;      ///< of the ranks of one machine alone the same
    std::string host;  ///< its name
    std::vector<MemoryClaim> claims;
};

/// A limit under which ranks want more than there is.
struct MemoryShortage {
    std::string limit;
    std::string host;
    std::int64_t ranks = 0;  ///< that share it
    std::int64_t needed = 0;
    std::int64_t available = 0;
};

/// The shortage in which most is missing; nothing where all ranks fit.
std::optional<MemoryShortage> find_shortage(std::span<const RankClaims> of_ranks);

/// The limits of this rank, as they are when it is made.
class MemoryCheck {
public:
    MemoryCheck(const Backend& backend, const MpiSession& ranks);

    /// The worst of all ranks, the same on all. All ranks call it, each with its own plan.
    std::optional<MemoryShortage> shortage(const MemoryPlan& plan) const;
    /// The same as a CommonError (usage), which ends with `advice`: what would fit. All ranks call
    /// `advice` together.
    void require(const MemoryPlan& plan, const std::function<std::string()>& advice) const;

private:
    const MpiSession& ranks_;
    std::vector<MemoryLimit> host_;
    bool in_host_memory_;
    std::optional<MemoryLimit> device_;
    std::int64_t device_reserve_ = 0;  ///< that was not taken yet
};

/// "35.0 GiB are needed, 128 MiB of it for libraries, and 23.5 GiB are available (LIMIT)".
std::string needed_and_available(std::int64_t needed, std::int64_t reserve, std::int64_t available,
                                 std::string_view limit);

}  // namespace gptrain
