// Memory that this machine can still give to a process, and what bounds it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gptrain {

struct MemoryLimit {
    std::string name;            ///< where the bound comes from, for people: "ulimit -v"
    std::int64_t available = 0;  ///< bytes that can still be taken under it; at least 0
    bool per_process = false;    ///< else the processes of a machine that have it share them
};

/// All that is known to bound the memory of this process: MemAvailable of /proc/meminfo; the limit
/// of each control group (version 2 or 1) from the process's own up to the root, less what the
/// group uses, where the page cache of files counts as available because the system takes it back;
/// and RLIMIT_AS and RLIMIT_DATA. Groups and limits without a bound are left out, and so is what
/// the system does not tell. /proc and /sys are read below `root`.
std::vector<MemoryLimit> host_memory_limits(const std::filesystem::path& root = "/");

}  // namespace gptrain
