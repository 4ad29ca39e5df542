#include "emulator/counts.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/checked.h"

namespace gptrain::emulator {
namespace {

constexpr int warp_lanes = 32;
constexpr std::size_t bank_bytes = 4;
constexpr std::size_t banks = 32;
constexpr std::size_t widest_access = 16;

Counting* collector = nullptr;

struct LaneAccess {
    int thread;
    std::uintptr_t address;
    std::size_t bytes;
};
/// The accesses of a warp by one instruction.
using WarpAccess = std::vector<LaneAccess>;

/// An access of a thread to which the next ones may be added: the host's compiler may divide one
/// that the device does at once.
struct OpenAccess {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;
    const void* place = nullptr;
};

struct BlockAccesses {
    std::unordered_map<int, OpenAccess> open;  ///< by thread
    std::map<std::pair<int, const void*>, std::int64_t> executed;
    std::map<std::tuple<int, const void*, std::int64_t>, WarpAccess> warps;
};

std::unordered_map<const void*, BlockAccesses>& accesses() {
    static std::unordered_map<const void*, BlockAccesses> all;
    return all;
}

/// Wavefronts of the lanes [begin, end), which want at most 128 bytes in all.
std::int64_t wavefronts_of(const WarpAccess& access, std::size_t begin, std::size_t end) {
    std::vector<std::uintptr_t> words[banks];
    for (std::size_t lane = begin; lane < end; ++lane) {
        const auto [thread, address, bytes] = access[lane];
        for (std::uintptr_t word = address / bank_bytes; word * bank_bytes < address + bytes;
             ++word)
            words[word % banks].push_back(word);
    }
    std::size_t most = 0;
    for (auto& bank : words) {
        std::sort(bank.begin(), bank.end());
        const auto last = std::unique(bank.begin(), bank.end());
        most = std::max(most, static_cast<std::size_t>(last - bank.begin()));
    }
    return static_cast<std::int64_t>(most);
}

void count(WarpAccess access) {
    std::sort(access.begin(), access.end(),
              [](const LaneAccess& a, const LaneAccess& b) { return a.thread < b.thread; });
    Counts& counts = collector->launches.back();
    std::size_t widest = bank_bytes;
    for (const LaneAccess& lane : access)
        widest = std::max(widest, lane.bytes);
    const std::size_t at_once = std::max<std::size_t>(banks * bank_bytes / widest, 1);
    for (std::size_t begin = 0; begin < access.size(); begin += at_once) {
        const std::size_t end = std::min(begin + at_once, access.size());
        const std::int64_t wavefronts = wavefronts_of(access, begin, end);
        counts.wavefronts += wavefronts;
        counts.conflicts += wavefronts - 1;
    }
}

/// Adds a thread's open access to those of its warp.
void close(BlockAccesses& block, int thread, OpenAccess& open) {
    if (open.bytes == 0) return;
    const std::int64_t time = block.executed[{thread, open.place}]++;
    const auto key = std::tuple(thread / warp_lanes, open.place, time);
    WarpAccess& warp = block.warps[key];
    warp.push_back({thread, open.address, open.bytes});
    open = {};
    if (warp.size() < warp_lanes) return;
    count(std::move(warp));
    block.warps.erase(key);
}

bool continues(const OpenAccess& open, std::uintptr_t address, std::size_t bytes) {
    return open.bytes > 0 && address == open.address + open.bytes &&
           open.address / widest_access == (address + bytes - 1) / widest_access;
}

}  // namespace

Counts& Counts::operator+=(const Counts& other) {
    products += other.products;
    product_flops += other.product_flops;
    wavefronts += other.wavefronts;
    conflicts += other.conflicts;
    return *this;
}

Counting::Counting() {
    collector = this;
}

Counting::~Counting() {
    collector = nullptr;
}

bool is_counting() {
    return collector != nullptr;
}

void count_launch() {
    if (is_counting()) collector->launches.emplace_back();
}

void count_access(const PlainAccess& access) {
    if (!is_counting()) return;
    BlockAccesses& block = accesses()[access.block];
    OpenAccess& open = block.open[access.thread];
    const auto address = reinterpret_cast<std::uintptr_t>(access.p);
    if (continues(open, address, access.bytes)) {
        open.bytes += access.bytes;
    } else {
        close(block, access.thread, open);
        open = {address, access.bytes, access.place};
    }
}

void count_rows(const std::vector<const void*>& rows) {
    if (!is_counting()) return;
    WarpAccess access;
    for (const void* row : rows) {
        access.push_back({static_cast<int>(access.size()), reinterpret_cast<std::uintptr_t>(row),
                          widest_access});
    }
    count(std::move(access));
}

void count_bytes(std::int64_t bytes) {
    if (is_counting())
        collector->launches.back().wavefronts += div_ceil(bytes, std::int64_t{banks * bank_bytes});
}

void count_products(std::int64_t warps, double flops) {
    if (!is_counting()) return;
    collector->launches.back().products += warps;
    collector->launches.back().product_flops += flops;
}

void count_end(const void* block) {
    const auto found = accesses().find(block);
    if (found == accesses().end()) return;
    for (auto& [thread, open] : found->second.open)
        close(found->second, thread, open);
    for (auto& [key, warp] : found->second.warps)
        count(std::move(warp));
    accesses().erase(found);
}

}  // namespace gptrain::emulator
