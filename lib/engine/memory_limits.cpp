#include "engine/memory_limits.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string_view>
#include <sys/resource.h>

#include "base/text.h"

namespace gptrain {
namespace {

namespace fs = std::filesystem;

/// A larger value means no limit: version 1 writes the largest multiple of a page.
constexpr std::int64_t unlimited = std::int64_t{1} << 60;

std::vector<std::string> lines_of(const fs::path& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);)
        lines.push_back(line);
    return lines;
}

/// The number after a key in lines such as "MemAvailable:   123 kB" and "inactive_file 123".
std::optional<std::int64_t> number_of(const std::vector<std::string>& lines, std::string_view key) {
    for (const std::string_view line : lines) {
        if (!line.starts_with(key)) continue;
        std::string_view rest = line.substr(key.size());
        const std::size_t begin = rest.find_first_not_of(" \t");
        if (begin == 0 || begin == rest.npos) continue;
        rest.remove_prefix(begin);
        return parse_int(rest.substr(0, rest.find(' ')));
    }
    return std::nullopt;
}

/// The number that a file contains; nothing for "max".
std::optional<std::int64_t> number_in(const fs::path& path) {
    const auto lines = lines_of(path);
    return lines.empty() ? std::nullopt : parse_int(lines.front());
}

/// File names and keys of one version of control groups.
struct GroupVersion {
    bool unified;            ///< version 2: one hierarchy, the line "0::" of /proc/self/cgroup
    std::string_view mount;  ///< root of the groups with memory limits
    std::string_view limit;
    std::string_view usage;
    std::array<std::string_view, 2> cache;  ///< keys of memory.stat
};

constexpr std::array group_versions = {
    GroupVersion{
        true, "sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file", "active_file"}},
    GroupVersion{false,
                 "sys/fs/cgroup/memory",
                 "memory.limit_in_bytes",
                 "memory.usage_in_bytes",
                 {"total_inactive_file", "total_active_file"}}};

/// The limit of one group; empty if it has none.
std::optional<MemoryLimit> limit_of(const fs::path& group, const GroupVersion& version) {
    const auto limit = number_in(group / version.limit);
    const auto usage = number_in(group / version.usage);
    if (!limit || !usage || *limit >= unlimited) return std::nullopt;
    std::int64_t cache = 0;
    const auto stat = lines_of(group / "memory.stat");
    for (const std::string_view key : version.cache)
        cache += number_of(stat, key).value_or(0);
    const std::int64_t used = *usage - std::min(cache, *usage);
    return MemoryLimit{text(version.limit, " of the control group ", group.string()),
                       std::max<std::int64_t>(*limit - used, 0), false};
}

/// The path of the process's group, after "0::" (version 2) or "4:memory:" (version 1, where
/// controllers may share a line: "4:cpu,memory:").
std::optional<std::string> group_path(std::string_view line, const GroupVersion& version) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) return std::nullopt;
    const std::string controllers = text(",", line.substr(first + 1, second - first - 1), ",");
    const bool found = version.unified ? line.starts_with("0::")
                                       : controllers.find(",memory,") != std::string::npos;
    if (!found) return std::nullopt;
    return std::string(line.substr(second + 1));
}

void add_group_limits(std::vector<MemoryLimit>& limits, const fs::path& root) {
    for (const std::string& line : lines_of(root / "proc/self/cgroup")) {
        for (const GroupVersion& version : group_versions) {
            const auto path = group_path(line, version);
            if (!path) continue;
            // In a container this may be the path outside the container; missing folders are
            // skipped.
            for (fs::path group = fs::path(*path).relative_path();; group = group.parent_path()) {
                const fs::path folder = root / version.mount / group;
                if (const auto limit =
                        limit_of(group.empty() ? root / version.mount : folder, version))
                    limits.push_back(*limit);
                if (group.empty()) break;
            }
        }
    }
}

void add_resource_limit(std::vector<MemoryLimit>& limits, int resource, std::string_view name,
                        std::optional<std::int64_t> used_kb) {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return;
    if (limit.rlim_cur == RLIM_INFINITY || !used_kb) return;
    const auto bytes =
        static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(unlimited)));
    limits.push_back({.name = std::string(name),
                      .available = std::max<std::int64_t>(bytes - 1024 * *used_kb, 0),
                      .per_process = true});
}

}  // namespace

std::vector<MemoryLimit> host_memory_limits(const fs::path& root) {
    std::vector<MemoryLimit> limits;
    if (const auto kb = number_of(lines_of(root / "proc/meminfo"), "MemAvailable:"))
        limits.push_back({.name = "MemAvailable of /proc/meminfo", .available = 1024 * *kb});
    add_group_limits(limits, root);
    const auto status = lines_of(root / "proc/self/status");
    add_resource_limit(limits, RLIMIT_AS, "ulimit -v", number_of(status, "VmSize:"));
    add_resource_limit(limits, RLIMIT_DATA, "ulimit -d", number_of(status, "VmData:"));
    return limits;
}

}  // namespace gptrain
