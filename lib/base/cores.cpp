#include "base/cores.h"

#include <cerrno>
#include <cstddef>
#include <sched.h>
#include <vector>

#include "base/error.h"

namespace gptrain {

std::string allowed_cores() {
    // The kernel refuses a set smaller than its own and does not report its size.
    std::vector<cpu_set_t> sets(1);
    while (sched_getaffinity(0, sizeof(cpu_set_t) * sets.size(), sets.data()) != 0) {
        if (errno != EINVAL || sets.size() >= 64) fail_errno(errno, "sched_getaffinity");
        sets.resize(2 * sets.size());
    }
    const std::size_t bytes = sizeof(cpu_set_t) * sets.size();
    std::string cores(8 * bytes, '0');
    for (std::size_t core = 0; core < cores.size(); ++core) {
        if (CPU_ISSET_S(core, bytes, sets.data())) cores[core] = '1';
    }
    return cores;
}

}  // namespace gptrain
