// Memory that this machine can still give to a process, and the limits on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gptrain {

struct MemoryLimit {
    std::string name;            ///< where the bound comes from, for people: "ulimit -v"
    std::int64_t available = 0;  ///< bytes that can still be allocated under it; at least 0
    bool per_process = false;    ///< if false, processes on one machine share the limit
};

/// All known limits on the memory of this process:
/// - MemAvailable of /proc/meminfo;
/// - the limit of each control group (version 2 or 1), from the process's own up to the root, less
///   the group's usage; the page cache of files counts as available because the system reclaims it;
/// - RLIMIT_AS and RLIMIT_DATA.
/// Groups and resources without a limit, and limits that the system does not report, are left out.
/// /proc and /sys are read below `root`.
std::vector<MemoryLimit> host_memory_limits(const std::filesystem::path& root = "/");

}  // namespace gptrain
