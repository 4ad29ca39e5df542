#include "watch/process_state.h"

#include <fstream>
#include <locale>
#include <optional>
#include <string_view>

#include "base/text.h"

namespace gptrain {
namespace {

/// The letter by which the system reports the state of a process's first thread; nothing if the
/// process is gone, '?' if the letter cannot be read.
std::optional<char> state_of(std::string_view process) {
    std::ifstream file(text("/proc/", process, "/stat"));
    std::string stat;
    if (!std::getline(file, stat)) return std::nullopt;
    // "pid (name) state ...", where the name may contain anything.
    const std::size_t name_end = stat.rfind(')');
    if (name_end == stat.npos || name_end + 2 >= stat.size()) return '?';
    return stat[name_end + 2];
}

}  // namespace

std::string describe_process_state(std::int64_t pid) {
    const auto state = state_of(text(pid));
    if (!state) return "its process is gone";
    switch (*state) {
        case 'T':
        case 't': return "its process is stopped";
        case 'Z':
        case 'X': return "its process has ended";
        case 'D': return "its process is blocked on a disk or device";
        default: return {};
    }
}

bool is_blocked() {
    return state_of("self") == 'D';
}

std::int64_t ms_without_core() {
    // "nanoseconds on a core, nanoseconds ready to run, time slices".
    std::ifstream file("/proc/self/schedstat");
    file.imbue(std::locale::classic());
    std::int64_t on_core = 0;
    std::int64_t ready = 0;
    return file >> on_core >> ready ? ready / 1'000'000 : 0;
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
