#include "emulator/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>

#include "base/checked.h"
#include "base/error.h"
#include "emulator/grid.h"

namespace gptrain::emulator {
namespace {

constexpr std::int64_t alignment_of_allocations = 256;
constexpr std::int64_t device_bytes = std::int64_t{1} << 40;

/// The end of each allocation, by its beginning.
std::map<const std::byte*, const std::byte*>& allocations() {
    static std::map<const std::byte*, const std::byte*> map;
    return map;
}

/// An allocation, or the gap between two of them.
struct Range {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    bool allocated = false;
};
/// The ranges of recent accesses, by address: most are to the same ones.
constexpr std::size_t recent_count = 64;
Range recent_ranges[recent_count];

void forget_recent() noexcept {
    std::fill(std::begin(recent_ranges), std::end(recent_ranges), Range());
}

Range range_at(const std::byte* p) {
    const auto& all = allocations();
    const auto after = all.upper_bound(p);
    Range gap;
    if (after != all.begin()) {
        const auto& [begin, end] = *std::prev(after);
        if (p < end) return {begin, end, true};
        gap.begin = end;
    }
    gap.end =
        after == all.end() ? reinterpret_cast<const std::byte*>(~std::uintptr_t{0}) : after->first;
    return gap;
}

void check_alignment(const void* p, std::size_t alignment, const char* what) {
    if (reinterpret_cast<std::uintptr_t>(p) % alignment != 0) {
        fault(text(what, ": an address that is not a multiple of ", alignment));
    }
}

}  // namespace

std::byte* allocate(std::int64_t bytes) {
    std::byte* data = nullptr;
    const auto size = static_cast<std::size_t>(round_up(bytes, alignment_of_allocations));
    if (bytes <= device_bytes)
        data = static_cast<std::byte*>(std::aligned_alloc(alignment_of_allocations, size));
    if (data == nullptr) fail(ExitCode::usage, "emulator: out of memory");
    std::memset(data, 0xff, size);
    adopt(data, bytes);
    return data;
}

void release(std::byte* data) noexcept {
    give_back(data);
    std::free(data);
}

void adopt(std::byte* data, std::int64_t bytes) {
    allocations()[data] = data + bytes;
    forget_recent();
}

void give_back(std::byte* data) noexcept {
    allocations().erase(data);
    forget_recent();
}

bool is_allocated(const void* p, std::int64_t bytes) {
    const auto* begin = static_cast<const std::byte*>(p);
    Range& recent = recent_ranges[reinterpret_cast<std::uintptr_t>(p) / 4096 % recent_count];
    if (begin < recent.begin || begin >= recent.end) {
        recent = range_at(begin);
    }
    return recent.allocated && begin + bytes <= recent.end;
}

void check_access(const void* p, std::size_t bytes, std::size_t alignment, const char* what) {
    check_alignment(p, alignment, what);
    const auto* begin = static_cast<const std::byte*>(p);
    if (!is_shared(p, bytes) && !is_allocated(begin, static_cast<std::int64_t>(bytes))) {
        fault(text(what, ": ", bytes, " bytes outside of all memory"));
    }
}

void check_shared(const void* p, std::size_t bytes, std::size_t alignment, const char* what) {
    check_alignment(p, alignment, what);
    if (!is_shared(p, bytes)) {
        fault(text(what, ": ", bytes, " bytes outside of the block's shared memory"));
    }
}

std::int64_t shared_offset(const void* p) {
    return static_cast<const std::byte*>(p) - current().block->shared;
}

}  // namespace gptrain::emulator
