#include "emulator/races.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "emulator/memory.h"

namespace gptrain::emulator {
namespace {

constexpr std::uintptr_t word_bytes = 8;
constexpr std::uintptr_t page_bytes = 4096;
/// Pages that are kept from one launch to the next.
constexpr std::size_t kept_pages = 4096;

/// Accesses of a word by one agent at one time.
struct Access {
    std::uint32_t block;
    std::uint32_t agent;  ///< of an operation: its index
    Time time;
    std::uint8_t bytes;  ///< one bit for each byte of the word
    AccessKind kind;
    Proxy proxy;
    bool by_operation;
    const char* what;
    const void* place;
};

/// Reads that differ only in their agents, which are of one warp.
struct Reads {
    Access read;  ///< by any of them
    std::uint32_t lanes;

    static Reads of(const Access& read) { return {read, 1u << read.agent % 32}; }
    bool may_join(const Access& other) const {
        return of_same_warp(other) && read.time == other.time && read.bytes == other.bytes &&
               read.what == other.what && read.place == other.place;
    }
    bool of_same_warp(const Access& other) const {
        return read.agent / 32 == other.agent / 32 && read.by_operation == other.by_operation &&
               read.proxy == other.proxy;
    }
    Access by(int lane) const {
        Access one = read;
        one.agent = read.agent / 32 * 32 + static_cast<Agent>(lane);
        return one;
    }
};

/// The accesses of 8 bytes that later ones must still be compared with.
struct Word {
    std::uint64_t owner = 0;  ///< the launch or block that they belong to
    std::vector<Access> writes;
    std::vector<Reads> reads;         ///< of one block
    std::uint8_t read_by_others = 0;  ///< the bytes that further blocks have read
    std::uint8_t constants = 0;       ///< the bytes that any thread has read as constants
};

struct Page {
    Word words[page_bytes / word_bytes];
};

/// The words of all memory that has been accessed.
class Words {
public:
    Word& at(std::uintptr_t address, std::uint64_t owner) {
        const std::uintptr_t number = address / page_bytes;
        Recent& recent = recent_[number % std::size(recent_)];
        if (recent.page == nullptr || recent.number != number) {
            std::unique_ptr<Page>& page = pages_[number];
            if (page == nullptr) page = std::make_unique<Page>();
            recent = {number, page.get()};
        }
        Word& word = recent.page->words[address % page_bytes / word_bytes];
        if (word.owner != owner) {
            word.owner = owner;
            word.writes.clear();
            word.reads.clear();
            word.read_by_others = 0;
            word.constants = 0;
        }
        return word;
    }
    void trim() {
        if (pages_.size() <= kept_pages) return;
        pages_.clear();
        std::fill(std::begin(recent_), std::end(recent_), Recent());
    }

private:
    struct Recent {
        std::uintptr_t number = 0;
        Page* page = nullptr;
    };
    std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
    Recent recent_[256];
};

struct OperationState {
    Proxy proxy;
    bool complete;
    std::uint32_t block;
    Agent agent;
    Time time;
};

struct State {
    Words words;
    std::vector<OperationState> operations;
    std::uint64_t launch = 0;  ///< that the operations belong to
};

State state;

/// An access and what comes before it.
struct Candidate {
    Access access;
    const Knowledge* known;
    Agent self;  ///< the thread whose earlier accesses come before it as well
    bool shared = false;

    /// True if an earlier access comes before this one.
    bool follows(const Access& earlier) const {
        std::uint32_t block = earlier.block;
        Agent agent = earlier.agent;
        Time time = earlier.time;
        if (earlier.by_operation) {
            const OperationState& operation = state.operations[earlier.agent];
            if (!operation.complete) return access.by_operation && access.agent == earlier.agent;
            block = operation.block;
            agent = operation.agent;
            time = operation.time;
        }
        const bool needs_fence = access.proxy == Proxy::async &&
                                 (is_plain_write(earlier) || (block != access.block && !shared));
        if (!needs_fence) {
            return (block == access.block && agent == self) || known->all.of(block, agent) >= time;
        }
        const Clock& fenced = shared ? known->fenced_shared : known->fenced_global;
        return fenced.of(block, agent) >= time;
    }
    /// True if only a proxy fence is missing.
    bool lacks_fence(const Access& earlier) const {
        Candidate plain = *this;
        plain.access.proxy = Proxy::generic;
        return access.proxy == Proxy::async && plain.follows(earlier);
    }

private:
    static bool is_plain_write(const Access& access) {
        return access.kind != AccessKind::read && access.proxy == Proxy::generic;
    }
};

std::string place_of(const Access& access) {
    Dl_info file;
    if (access.place == nullptr || dladdr(access.place, &file) == 0) return {};
    const auto offset =
        static_cast<const std::byte*>(access.place) - static_cast<const std::byte*>(file.dli_fbase);
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, offset, 16).ptr;
    return text(" (addr2line -ie ", file.dli_fname, " 0x", std::string(digits, end), ")");
}

std::string agent_of(const Access& access, const Block& block) {
    if (access.block != block.serial) return " of another block";
    if (access.by_operation) return {};
    if (static_cast<int>(access.agent) < block.shape.threads)
        return text(" of thread ", access.agent);
    return {};
}

[[noreturn]] void report(const Candidate& later, const Access& earlier, std::uintptr_t address) {
    const Block& block = *current().block;
    const auto* p = reinterpret_cast<const void*>(address);
    const Block* const owner = owner_of_shared(p);
    refuse(text("a race in ",
                owner != nullptr ? text("shared memory at byte ",
                                        static_cast<const std::byte*>(p) - owner->shared)
                                 : "global memory",
                ": ", earlier.what, agent_of(earlier, block), place_of(earlier),
                " does not come before ", later.access.what, place_of(later.access),
                later.lacks_fence(earlier) ? ": no proxy fence in between" : ""));
}

[[noreturn]] void report_constant(const Access& write) {
    refuse(text("a race in global memory: load_constant and ", write.what,
                agent_of(write, *current().block), place_of(write), " in one launch"));
}

bool conflict(const Access& a, const Access& b) {
    const bool both_atomic = a.kind == AccessKind::atomic && b.kind == AccessKind::atomic;
    return (a.bytes & b.bytes) != 0 && !both_atomic;
}

/// Removes the bytes of a write from an earlier access: whatever follows the write also follows
/// what came before it.
void replace(Access& earlier, const Access& write) {
    earlier.bytes &= static_cast<std::uint8_t>(~write.bytes);
}

void pass_writes(const Candidate& now, std::vector<Access>& writes, std::uintptr_t address) {
    bool any_empty = false;
    for (Access& write : writes) {
        if ((write.bytes & now.access.bytes) == 0) continue;
        const bool follows = now.follows(write);
        if (!follows && conflict(write, now.access)) report(now, write, address);
        if (!follows || now.access.kind == AccessKind::read) continue;
        replace(write, now.access);
        any_empty = any_empty || write.bytes == 0;
    }
    if (any_empty) std::erase_if(writes, [](const Access& write) { return write.bytes == 0; });
}

void pass_reads(const Candidate& now, std::vector<Reads>& all, std::uintptr_t address) {
    for (Reads& reads : all) {
        if ((reads.read.bytes & now.access.bytes) == 0) continue;
        for (std::uint32_t rest = reads.lanes; rest != 0; rest &= rest - 1) {
            const Access read = reads.by(std::countr_zero(rest));
            if (!now.follows(read)) report(now, read, address);
        }
        replace(reads.read, now.access);
    }
    std::erase_if(all, [](const Reads& reads) { return reads.read.bytes == 0; });
}

void keep_read(Word& word, const Access& read) {
    std::vector<Reads>& all = word.reads;
    if (!all.empty() && all.front().read.block != read.block) {
        for (const Reads& others : all)
            word.read_by_others |= others.read.bytes;
        all.clear();
    }
    const std::uint32_t lane = Reads::of(read).lanes;
    bool kept = false;
    bool any_empty = false;
    for (Reads& reads : all) {
        if (!kept && reads.may_join(read)) {
            reads.lanes |= lane;
            kept = true;
        } else if (reads.of_same_warp(read) && (reads.read.bytes & ~read.bytes) == 0) {
            // An access that follows a read also follows the earlier reads of the same thread.
            reads.lanes &= ~lane;
            any_empty = any_empty || reads.lanes == 0;
        }
    }
    if (any_empty) std::erase_if(all, [](const Reads& reads) { return reads.lanes == 0; });
    if (!kept) all.push_back(Reads::of(read));
}

/// At least the last write of each written byte is kept.
void keep_constant(Word& word, std::uint8_t bytes) {
    for (const Access& write : word.writes)
        if ((write.bytes & bytes) != 0) report_constant(write);
    word.constants |= bytes;
}

void look(const Candidate& now, std::uintptr_t address, std::uint64_t owner) {
    Word& word = state.words.at(address, owner);
    if (now.access.kind == AccessKind::constant) return keep_constant(word, now.access.bytes);
    pass_writes(now, word.writes, address);
    if (now.access.kind == AccessKind::read) return keep_read(word, now.access);
    if ((word.constants & now.access.bytes) != 0) report_constant(now.access);
    pass_reads(now, word.reads, address);
    if ((word.read_by_others & now.access.bytes) != 0) {
        Access others = now.access;
        others.block = ~0u;
        others.what = "a read";
        others.place = nullptr;
        report(now, others, address);
    }
    word.writes.push_back(now.access);
}

/// Forgets what belongs to an earlier launch.
void follow_launch() {
    const std::uint64_t launch = current().block->launch;
    if (std::exchange(state.launch, launch) == launch) return;
    state.operations.clear();
    state.words.trim();
}

/// Looks at an access of any length.
void look_at_all(Candidate& now, const void* p, std::size_t bytes) {
    const Block& block = *current().block;
    const Block* const in = owner_of_shared(p);
    now.shared = in != nullptr;
    const std::uint64_t owner = now.shared ? in->owner : block.launch;
    const auto begin = reinterpret_cast<std::uintptr_t>(p);
    Thread* const thread = std::exchange(watched, nullptr);
    follow_launch();
    for (std::uintptr_t at = begin; at < begin + bytes;) {
        const std::uintptr_t first = at % word_bytes;
        const std::uintptr_t count = std::min(word_bytes - first, begin + bytes - at);
        now.access.bytes = static_cast<std::uint8_t>(((1u << count) - 1) << first);
        look(now, at - first, owner);
        at += count;
    }
    watched = thread;
}

Access access_by(const Thread& thread, AccessKind kind, const char* what) {
    return {.block = thread.block->serial,
            .agent = static_cast<Agent>(thread.index),
            .time = thread.time,
            .bytes = 0,
            .kind = kind,
            .proxy = Proxy::generic,
            .by_operation = false,
            .what = what,
            .place = nullptr};
}

}  // namespace

void note_access(const void* p, std::size_t bytes, AccessKind kind, const char* what,
                 const void* place) {
    if (!looks_for_races()) return;
    const Thread& thread = current();
    Candidate now = {access_by(thread, kind, what), &thread.known,
                     static_cast<Agent>(thread.index)};
    now.access.place = place;
    look_at_all(now, p, bytes);
}

Operation begin_operation(Proxy proxy) {
    follow_launch();
    state.operations.push_back(
        {.proxy = proxy, .complete = false, .block = 0, .agent = 0, .time = 0});
    return static_cast<Operation>(state.operations.size() - 1);
}

void note_access_of(Operation operation, const void* p, std::size_t bytes, AccessKind kind,
                    const char* what) {
    if (!looks_for_races()) return;
    const Thread& thread = current();
    Candidate now = {access_by(thread, kind, what), &thread.known,
                     static_cast<Agent>(thread.index)};
    now.access.agent = operation;
    now.access.by_operation = true;
    now.access.proxy = state.operations[operation].proxy;
    look_at_all(now, p, bytes);
}

void complete_operation(Operation operation, const Block& block, Agent agent, Time time) {
    OperationState& done = state.operations[operation];
    done.complete = true;
    done.block = block.serial;
    done.agent = agent;
    done.time = time;
}

void note_product_read(const void* p, std::size_t bytes, const Knowledge& known, Agent agent,
                       Time time) {
    if (!looks_for_races()) return;
    Candidate now = {access_by(current(), AccessKind::read, "a read by a product"), &known, agent};
    now.access.agent = agent;
    now.access.time = time;
    now.access.proxy = Proxy::async;
    look_at_all(now, p, bytes);
}

}  // namespace gptrain::emulator
