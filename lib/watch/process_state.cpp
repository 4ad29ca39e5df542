#include "watch/process_state.h"

#include <fstream>
#include <string_view>

#include "base/text.h"

namespace gptrain {

std::string describe_process_state(std::int64_t pid) {
    std::ifstream file(text("/proc/", pid, "/stat"));
    std::string stat;
    if (!std::getline(file, stat)) return "its process is gone";
    // "pid (name) state ...", where the name may contain anything.
    const std::size_t name_end = stat.rfind(')');
    if (name_end == stat.npos || name_end + 2 >= stat.size()) return {};
    switch (stat[name_end + 2]) {
        case 'T':
        case 't': return "its process is stopped";
        case 'Z':
        case 'X': return "its process has ended";
        case 'D': return "its process is blocked on a disk or device";
        default: return {};
    }
}

std::int64_t bytes_read_and_written() {
    std::ifstream file("/proc/self/io");
    std::int64_t sum = 0;
    for (std::string line; std::getline(file, line);) {
        const std::string_view view = line;
        for (const std::string_view key : {"rchar: ", "wchar: ", "read_bytes: ", "write_bytes: "})
            if (view.starts_with(key)) sum += parse_int(view.substr(key.size())).value_or(0);
    }
    return sum;
}

}  // namespace gptrain
