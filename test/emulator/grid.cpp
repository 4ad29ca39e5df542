#include "emulator/grid.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <random>

#include "base/error.h"
#include "emulator/counts.h"

namespace gptrain::emulator {
namespace {

constexpr int warp_size = 32;
constexpr int warpgroup_size = 128;

std::exception_ptr failure;

/// 0, 1, ... n - 1 in the order of the settings; `seed` varies the shuffles.
std::vector<std::int64_t> in_order(std::int64_t n, std::uint64_t seed) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(n));
    std::iota(indices.begin(), indices.end(), 0);
    if (settings().order == Order::descending) std::reverse(indices.begin(), indices.end());
    if (settings().order == Order::shuffled) {
        std::shuffle(indices.begin(), indices.end(), std::mt19937_64(seed));
    }
    return indices;
}

std::uint64_t new_number() {
    static std::uint64_t numbers = 0;
    return ++numbers;
}

void check_end(const Thread& thread) {
    if (!thread.copies.idle()) fault("ends with copies by copy_async under way");
    if (!thread.bulk_stores.idle()) fault("ends with bulk stores under way");
    if (!thread.products.empty() || !thread.open_products.empty()) {
        fault("ends with products of its warpgroup under way");
    }
}

/// Fibers are created once and reused.
std::vector<std::unique_ptr<Thread>>& spare_threads() {
    static std::vector<std::unique_ptr<Thread>> spare;
    return spare;
}

std::unique_ptr<Thread> take_thread() {
    auto& spare = spare_threads();
    if (spare.empty()) return std::make_unique<Thread>();
    auto thread = std::move(spare.back());
    spare.pop_back();
    // Nearly always they are empty, and an empty deque allocates.
    if (!thread->copies.idle()) thread->copies = {};
    if (!thread->bulk_stores.idle()) thread->bulk_stores = {};
    thread->products_fenced = false;
    thread->open_products.clear();
    thread->products.clear();
    thread->accumulators.clear();
    thread->waits_for = nullptr;
    thread->awaited = nullptr;
    thread->known = {};
    thread->time = 1;
    return thread;
}

/// A block that has started.
class RunningBlock {
public:
    RunningBlock(const GridShape& shape, const std::int64_t (&index)[3], std::uint32_t serial,
                 std::uint64_t launch, std::shared_ptr<Cluster> cluster,
                 const std::function<void()>& kernel)
        : block_(shape, index, serial, launch) {
        block_.cluster = std::move(cluster);
        block_.cluster->blocks.push_back(&block_);
        for (int i = 0; i < shape.threads; ++i) {
            threads_.push_back(take_thread());
            Thread& thread = *threads_.back();
            thread.block = &block_;
            thread.index = i;
            block_.threads.push_back(&thread);
            thread.fiber.start([&thread, &kernel] { run_thread(thread, kernel); });
        }
        block_.live = shape.threads;
        order_ = in_order(shape.threads, static_cast<std::uint64_t>(index[0]) + 1);
    }
    ~RunningBlock() {
        for (auto& thread : threads_)
            spare_threads().push_back(std::move(thread));
    }

    bool done() const { return block_.live == 0; }
    /// Runs until all threads have ended or none can continue. Returns true if any thread made
    /// progress.
    bool run() {
        bool any = false;
        ++block_.rounds;
        while (block_.live > 0) {
            const std::uint64_t before = block_.progress;
            for (const std::int64_t i : order_) {
                Thread& thread = *threads_[static_cast<std::size_t>(i)];
                if (thread.fiber.done() || thread.waits_in_vain()) continue;
                running = &thread;
                watched = sees_plain_accesses() && settings().races ? running : nullptr;
                counted = is_counting() ? running : nullptr;
                thread.fiber.resume();
                running = watched = counted = nullptr;
                if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
            }
            if (block_.progress == before) return any;
            any = true;
        }
        check_block_end();
        count_end(&block_);
        block_.cluster->blocks[rank()] = nullptr;
        return any;
    }
    bool gives_way() const {
        return any_thread([](const Thread& thread) { return thread.gives_way; });
    }
    bool spins() const {
        return any_thread([](const Thread& thread) { return thread.spins; });
    }
    std::string waiting() const {
        std::string all;
        int named = 0;
        for (const auto& thread : threads_) {
            if (thread->fiber.done() || named == 6) continue;
            all += text(named++ == 0 ? "" : ", ", "thread ", thread->index, " in ",
                        thread->waits_for == nullptr ? "a loop" : thread->waits_for);
        }
        return text("block (", block_.index[0], ", ", block_.index[1], ", ", block_.index[2],
                    "): ", all);
    }

private:
    std::size_t rank() const {
        return static_cast<std::size_t>(block_.index[0] % block_.shape.cluster_blocks);
    }
    /// True if the predicate holds for a thread that has not ended.
    template <class Predicate>
    bool any_thread(const Predicate& predicate) const {
        return std::any_of(threads_.begin(), threads_.end(), [&](const auto& thread) {
            return !thread->fiber.done() && predicate(*thread);
        });
    }
    void check_block_end() const {
        for (const auto& [address, barrier] : block_.barriers) {
            if (barrier.copies.empty()) continue;
            fail(ExitCode::bug, "emulator: block (", block_.index[0], ", ", block_.index[1], ", ",
                 block_.index[2], ") ends with copies to a barrier under way");
        }
    }
    static void run_thread(Thread& thread, const std::function<void()>& kernel) {
        try {
            kernel();
            check_end(thread);
        } catch (...) {
            if (!failure) failure = std::current_exception();
        }
        --thread.block->live;
        ++thread.block->barrier_events;
        ++thread.block->progress;
    }

    Block block_;
    std::vector<std::unique_ptr<Thread>> threads_;
    std::vector<std::int64_t> order_;
};

void check_shape(const GridShape& shape) {
    const auto refuse = [](const std::string& what) {
        fail(ExitCode::bug, "emulator: a launch with ", what);
    };
    if (shape.threads < 1 || shape.threads > 1024) refuse(text(shape.threads, " threads"));
    if (shape.blocks[0] > 2147483647 || shape.blocks[1] > 65535 || shape.blocks[2] > 65535) {
        refuse(text(shape.blocks[0], " x ", shape.blocks[1], " x ", shape.blocks[2], " blocks"));
    }
    if (shape.cluster_blocks > 1 && settings().major < 9) refuse("clusters on this device");
    if (shape.cluster_blocks < 1 || shape.cluster_blocks > 8 ||
        shape.blocks[0] % shape.cluster_blocks != 0) {
        refuse(text(shape.blocks[0], " blocks in clusters of ", shape.cluster_blocks));
    }
    if (shape.shared_bytes > settings().shared_bytes) {
        refuse(text(shape.shared_bytes, " bytes of shared memory, the device has ",
                    settings().shared_bytes));
    }
}

}  // namespace

Settings& settings() {
    static Settings settings;
    return settings;
}

Block::Block(const GridShape& grid, const std::int64_t (&place)[3], std::uint32_t number,
             std::uint64_t launch_number)
    : shape(grid),
      serial(number),
      launch(launch_number),
      owner(new_number()),
      shared_memory(static_cast<std::size_t>(grid.shared_bytes) + 1024, std::byte{0xff}) {
    std::copy(place, place + 3, index);
    const auto address = reinterpret_cast<std::uintptr_t>(shared_memory.data());
    shared = shared_memory.data() + ((address + 1023) / 1024 * 1024 - address);
    warps.resize(static_cast<std::size_t>((grid.threads + warp_size - 1) / warp_size));
    warpgroups.resize(
        static_cast<std::size_t>((grid.threads + warpgroup_size - 1) / warpgroup_size));
    products_done.resize(warps.size());
}

bool sees_plain_accesses() {
#ifdef GPTRAIN_EMULATOR_SEES_PLAIN_ACCESSES
    return true;
#else
    return false;
#endif
}

void refuse_outside_of_kernels() {
    fail(ExitCode::bug, "emulator: a device function outside of a kernel");
}

void fault(const std::string& what) {
    const Thread& thread = current();
    const Block& block = *thread.block;
    fail(ExitCode::bug, "emulator: block (", block.index[0], ", ", block.index[1], ", ",
         block.index[2], ") thread ", thread.index, ": ", what);
}

void refuse(const std::string& what) {
    try {
        fault(what);
    } catch (...) {
        if (!failure) failure = std::current_exception();
    }
    for (;;)
        current().fiber.leave();
}

void note_progress() {
    ++current().block->progress;
}

void wait_until(const char* name, const std::uint64_t& events, FunctionRef<bool()> ready) {
    Thread& thread = current();
    thread.waits_for = name;
    while (!ready()) {
        thread.awaited = &events;
        thread.seen = events;
        thread.fiber.leave();
    }
    thread.waits_for = nullptr;
    thread.awaited = nullptr;
}

void spin() {
    Thread& thread = current();
    thread.spins = true;
    thread.fiber.leave();
    thread.spins = false;
}

void give_way() {
    Thread& thread = current();
    const std::uint64_t round = thread.block->rounds;
    thread.gives_way = true;
    while (thread.block->rounds == round)
        thread.fiber.leave();
    thread.gives_way = false;
    note_progress();
}

void meet(int threads, const void* kind, const char* name, void* argument,
          FunctionRef<void(std::vector<void*>&)> work) {
    Thread& thread = current();
    Block& block = *thread.block;
    auto& meetings = threads == warp_size ? block.warps : block.warpgroups;
    Meeting& meeting = meetings[static_cast<std::size_t>(thread.index / threads)];
    if ((thread.index / threads + 1) * threads > block.shape.threads) {
        fault(text(name, " in a part of the block that has no ", threads, " threads"));
    }
    if (meeting.arrived == 0) {
        meeting.kind = kind;
        meeting.name = name;
        meeting.arguments.assign(static_cast<std::size_t>(threads), nullptr);
    }
    if (meeting.kind != kind) fault(text(name, " while others of its warp are in ", meeting.name));
    meeting.arguments[static_cast<std::size_t>(thread.index % threads)] = argument;
    const std::uint64_t generation = meeting.generation;
    if (++meeting.arrived == threads) {
        work(meeting.arguments);
        meeting.arrived = 0;
        ++meeting.generation;
        ++block.progress;
        return;
    }
    wait_until(name, meeting.generation, [&] { return meeting.generation != generation; });
}

void meet_block(const char* name) {
    Thread& thread = current();
    Block& block = *thread.block;
    Meeting& meeting = block.all;
    const std::uint64_t generation = meeting.generation;
    ++block.progress;
    if (++meeting.arrived == block.shape.threads) {
        order(block.threads);
        meeting.arrived = 0;
        ++meeting.generation;
        ++block.barrier_events;
        return;
    }
    wait_until(name, block.barrier_events, [&] {
        if (meeting.generation != generation) return true;
        if (block.live < block.shape.threads) fault("others have ended before a block barrier");
        return false;
    });
}

void meet_cluster(const char* name) {
    Cluster& cluster = *current().block->cluster;
    const std::uint64_t generation = cluster.generation;
    note_progress();
    int expected = 0;
    std::vector<Thread*> threads;
    for (const Block* block : cluster.blocks) {
        if (block == nullptr) fault("a block has ended before a cluster barrier");
        expected += block->shape.threads;
        threads.insert(threads.end(), block->threads.begin(), block->threads.end());
    }
    if (++cluster.arrived == expected) {
        order(threads);
        cluster.arrived = 0;
        ++cluster.generation;
        return;
    }
    wait_until(name, cluster.generation, [&] { return cluster.generation != generation; });
}

Block& block_of_cluster(int rank) {
    const auto& blocks = current().block->cluster->blocks;
    if (rank < 0 || rank >= std::ssize(blocks)) fault(text("block ", rank, " of a cluster"));
    Block* block = blocks[static_cast<std::size_t>(rank)];
    if (block == nullptr)
        fault(text("an access of block ", rank, " of the cluster, which has ended"));
    return *block;
}

void run_grid(const GridShape& shape, const std::function<void()>& kernel) {
    check_shape(shape);
    const std::uint64_t launch = new_number();
    forget_counters();
    count_launch();
    const std::int64_t count = shape.blocks[0] * shape.blocks[1] * shape.blocks[2];
    // Of clusters: their blocks start together.
    const auto order = in_order(count / shape.cluster_blocks, static_cast<std::uint64_t>(count));
    std::vector<std::unique_ptr<RunningBlock>> begun;
    std::size_t next = 0;
    std::uint32_t serial = 0;
    for (std::uint64_t round = 0; next < order.size() || !begun.empty(); ++round) {
        bool any = false;
        bool gives_way = false;
        for (const std::int64_t i : in_order(std::ssize(begun), round)) {
            RunningBlock& block = *begun[static_cast<std::size_t>(i)];
            any = block.run() || any;
            gives_way = gives_way || block.gives_way();
            const bool alone = shape.cluster_blocks == 1;
            if (alone && !block.done() && !block.spins() && !block.gives_way())
                fail(ExitCode::bug, "emulator: deadlock: ", block.waiting());
        }
        std::erase_if(begun, [](const auto& block) { return block->done(); });
        if (any && !(gives_way && next < order.size())) continue;
        if (next == order.size()) {
            if (begun.empty()) break;
            fail(ExitCode::bug, "emulator: blocks wait for each other: ", begun.front()->waiting());
        }
        const std::int64_t first = order[next++] * shape.cluster_blocks;
        const auto cluster = std::make_shared<Cluster>();
        for (std::int64_t flat = first; flat < first + shape.cluster_blocks; ++flat) {
            const std::int64_t index[3] = {flat % shape.blocks[0],
                                           flat / shape.blocks[0] % shape.blocks[1],
                                           flat / shape.blocks[0] / shape.blocks[1]};
            begun.push_back(
                std::make_unique<RunningBlock>(shape, index, ++serial, launch, cluster, kernel));
        }
    }
}

}  // namespace gptrain::emulator
