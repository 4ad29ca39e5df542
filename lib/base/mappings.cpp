#include "base/mappings.h"

#include <charconv>
#include <cstdint>
#include <fcntl.h>
#include <unistd.h>

namespace gptrain {
namespace {

/// The path in a line of /proc/self/maps, "7f00-7f40 r--s 00000000 08:01 42   /data/text.bin", if
/// its range contains the address.
std::string_view path_if_at(std::string_view line, std::uintptr_t address) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    const char* last = line.data() + line.size();
    const auto first = std::from_chars(line.data(), last, begin, 16);
    if (first.ptr == last || *first.ptr != '-') return {};
    std::from_chars(first.ptr + 1, last, end, 16);
    const std::size_t path = line.find('/');
    if (address < begin || address >= end || path == line.npos) return {};
    return line.substr(path);
}

}  // namespace

std::string_view mapped_file_at(const void* address, std::span<char> buffer) {
    const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps < 0) return {};
    std::string_view found;
    std::size_t length = 0;
    char next = 0;
    while (found.empty() && ::read(maps, &next, 1) == 1) {
        if (next == '\n') {
            const std::string_view line(buffer.data(), length);
            found = path_if_at(line, reinterpret_cast<std::uintptr_t>(address));
            length = 0;
        } else if (length < buffer.size()) {
            buffer[length++] = next;
        }
    }
    ::close(maps);
    return found;
}

}  // namespace gptrain
