// Runs a kernel's grid: its threads are fibers that run one after the other, in a chosen order. How
// threads wait for each other is here; what they do in between is in the twins of cuda/.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "emulator/clock.h"
#include "emulator/fiber.h"

namespace gptrain::emulator {

/// A callable that is not owned, so that threads abandoned midway leave nothing behind.
template <class Signature>
class FunctionRef;
template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
public:
    template <class F>
    FunctionRef(const F& function)  // NOLINT: implicit, as a function's name is
        : function_(&function), call_([](const void* f, Arguments... arguments) {
              return (*static_cast<const F*>(f))(arguments...);
          }) {}
    Result operator()(Arguments... arguments) const { return call_(function_, arguments...); }

private:
    const void* function_;
    Result (*call_)(const void*, Arguments...);
};

/// The order in which the threads of a block and the blocks of a grid take turns. Results must not
/// depend on it.
enum class Order { ascending, descending, shuffled };

/// The emulated device and how it runs.
struct Settings {
    Order order = Order::ascending;
    int major = 8;
    int minor = 0;
    std::int64_t shared_bytes = 99 << 10;
    std::string name = "emulated device";
    bool races = false;  ///< look for races, which takes several times as long
    /// Not 0: GEMMs that our kernel for sm_90a covers use it, with the summed dim in so many parts.
    std::int64_t sm90_gemm_parts = 0;
};
/// For all launches from now on.
Settings& settings();

struct GridShape {
    std::int64_t blocks[3];
    int threads;
    std::int64_t shared_bytes;
    int cluster_blocks = 1;
};

/// Runs `kernel` once for every thread of the grid. A violation of CUDA's rules is an Error (bug)
/// that names the block and thread.
void run_grid(const GridShape& shape, const std::function<void()>& kernel);

// ---- for the twins: what the running thread can do ----------------------------------------------

/// Reports a fault of the kernel in the running thread.
[[noreturn]] void fault(const std::string& what);
/// The same where no exception may pass: the thread never continues.
[[noreturn]] void refuse(const std::string& what);

class Block;

/// Copies to shared memory in flight, in groups by their commit.
class CopyGroups {
public:
    /// The operation that the copies until the next commit belong to.
    Operation open();
    void add(std::function<void()> copy) { open_.copies.push_back(std::move(copy)); }
    void commit() { groups_.push_back(std::exchange(open_, {})); }
    /// Does the copies of all but the newest `pending` groups.
    void complete(std::size_t pending);
    bool idle() const { return groups_.empty() && open_.copies.empty(); }

private:
    struct Group {
        std::vector<std::function<void()>> copies;
        std::optional<Operation> operation;
    };
    Group open_;
    std::deque<Group> groups_;
};

/// Bulk stores in flight, in groups by their commit. Each first reads shared memory, then writes.
class BulkStores {
public:
    struct Operations {
        Operation reads;
        Operation writes;
    };
    struct Store {
        std::function<void()> read;
        std::function<void()> write;
    };
    /// The operations that the stores until the next commit belong to.
    Operations open();
    void add(Store store) { open_.stores.push_back(std::move(store)); }
    void commit() { groups_.push_back(std::exchange(open_, {})); }
    /// Lets all but the newest `pending` groups read.
    void complete_reads(std::size_t pending);
    /// Lets all but the newest `pending` groups read and write.
    void complete(std::size_t pending);
    bool idle() const { return groups_.empty() && open_.stores.empty(); }

private:
    struct Group {
        std::vector<Store> stores;
        std::optional<Operations> operations;
        bool has_read = false;
    };
    Group open_;
    std::deque<Group> groups_;
};

/// An operand of a product in shared memory, as the instruction has it.
struct SharedOperand {
    std::uint64_t descriptor = 0;  ///< 0: it is in registers
    bool k_major = true;
    bool in_registers() const { return descriptor == 0; }
    bool operator==(const SharedOperand&) const = default;
};

/// A product of a warpgroup as one of its threads has issued it.
struct WarpgroupProduct {
    float* c = nullptr;
    int columns = 0;  ///< N
    DType dtype = DType::bf16;
    bool accumulate = false;
    SharedOperand a;
    SharedOperand b;
    std::uint32_t a_registers[4] = {};
    Knowledge known;  ///< of the thread when it issued it
    bool same_for_all(const WarpgroupProduct& other) const {
        return columns == other.columns && dtype == other.dtype && accumulate == other.accumulate &&
               a == other.a && b == other.b;
    }
};

struct Thread {
    Block* block = nullptr;
    int index = 0;
    Fiber fiber;
    const char* waits_for = nullptr;  ///< for reports; null: it is not waiting
    /// Its wait cannot end before this number changes; null: it may end at any time.
    const std::uint64_t* awaited = nullptr;
    std::uint64_t seen = 0;  ///< the number when it was last in vain
    bool spins = false;
    bool gives_way = false;
    CopyGroups copies;       ///< by copy_async
    BulkStores bulk_stores;  ///< and additions by the bulk engine
    bool products_fenced = false;
    std::vector<WarpgroupProduct> open_products;
    std::deque<std::vector<WarpgroupProduct>> products;  ///< in groups by their commit
    /// Hidden until no product writes them and they are pinned.
    std::unordered_map<float*, std::vector<float>> accumulators;
    Knowledge known;
    Time time = 1;

    bool waits_in_vain() const { return awaited != nullptr && *awaited == seen; }
    /// The knowledge that includes everything that this thread has done so far.
    Knowledge all_so_far() const;
    /// Makes all accesses so far known to those who learn `to`.
    void publish(Knowledge& to);
    /// Orders all plain writes so far, and those known of, before later asynchronous accesses.
    void fence_shared();
    void fence_global();
};

/// Threads that meet: the last one to arrive does the work for all.
struct Meeting {
    const void* kind = nullptr;
    const char* name = nullptr;
    int arrived = 0;
    std::uint64_t generation = 0;
    std::vector<void*> arguments;
};

struct NamedBarrier {
    int arrived = 0;
    int threads = 0;
    std::uint64_t generation = 0;
    Knowledge arriving;  ///< of those that have come
    std::vector<Thread*> waiting;
};

/// A barrier of cuda/device/hopper.cuh.
struct BarrierState {
    struct Copy {
        std::int64_t bytes;
        Operation operation;
        std::function<void()> work;
    };
    Agent agent = 0;
    bool fenced = false;     ///< copies may count on it
    int arrivals = 0;        ///< per phase
    int missing = 0;         ///< still to come in this phase
    std::int64_t bytes = 0;  ///< expected and not yet arrived
    int phase = 0;
    bool from_others = false;           ///< another block has arrived in this phase
    bool completed_by_others = false;   ///< in the last one
    std::uint64_t events = 0;           ///< copies that have begun, and phases that are complete
    std::deque<Copy> copies;            ///< in flight
    std::vector<Operation> operations;  ///< that have come in this phase
    Knowledge arriving;                 ///< of those that have come in this phase
    Knowledge completed;                ///< of the last phase
};

/// Blocks that run together and access each other's shared memory.
struct Cluster {
    std::vector<Block*> blocks;  ///< by rank; null: it has ended
    int arrived = 0;
    std::uint64_t generation = 0;
};

class Block {
public:
    Block(const GridShape& shape, const std::int64_t (&index)[3], std::uint32_t serial,
          std::uint64_t launch);

    /// Agents in addition to the threads.
    Agent products_of(int warp) const { return static_cast<Agent>(shape.threads + warp); }
    Agent next_barrier() const {
        return products_of(static_cast<int>(warps.size() + barriers.size()));
    }

    const GridShape& shape;
    std::int64_t index[3];
    std::uint32_t serial = 0;  ///< among the blocks of the launch
    std::uint64_t launch;      ///< a different number for each launch
    std::uint64_t owner;       ///< and for the shared memory of each block
    std::vector<std::byte> shared_memory;
    std::byte* shared = nullptr;  ///< the aligned part of it
    std::vector<Thread*> threads;
    std::vector<Meeting> warps;
    std::vector<Meeting> warpgroups;
    Meeting all;
    NamedBarrier named[16];
    std::unordered_map<const void*, BarrierState> barriers;
    std::vector<Time> products_done;  ///< by each warp
    std::shared_ptr<Cluster> cluster;
    std::uint64_t progress = 0;
    std::uint64_t rounds = 0;  ///< how often it has been its turn to run
    int live = 0;
    std::uint64_t barrier_events = 0;  ///< complete block barriers, and ends of threads
};

/// The running thread; null outside of kernels.
inline Thread* running = nullptr;
[[noreturn]] void refuse_outside_of_kernels();
/// The running thread; an Error (bug) outside of kernels.
inline Thread& current() {
    if (running == nullptr) refuse_outside_of_kernels();
    return *running;
}

/// True if plain accesses are instrumented: otherwise races are not looked for.
bool sees_plain_accesses();
/// The running thread if races are looked for; null while an access of it is looked at.
inline Thread* watched = nullptr;
/// The running thread if its accesses are counted (counts.h); null while one is.
inline Thread* counted = nullptr;
inline bool looks_for_races() {
    return watched != nullptr;
}

/// Lets other threads run until `ready()`, which is asked again whenever the number of `events` has
/// changed; `name` appears in reports.
void wait_until(const char* name, const std::uint64_t& events, FunctionRef<bool()> ready);
/// Call it in a loop that waits for another thread, perhaps of another block.
void spin();
/// Suspends the thread until the other blocks have run; another one begins first. So blocks that
/// take work from a counter share it.
void give_way();
/// Call it when something has happened that others may wait for.
void note_progress();

/// All threads of the running thread's warp (`threads` 32) or warpgroup (128) call it. The last one
/// calls `work` once, with the argument of each.
void meet(int threads, const void* kind, const char* name, void* argument,
          FunctionRef<void(std::vector<void*>&)> work);
void meet_block(const char* name);
/// All threads of all blocks of the cluster.
void meet_cluster(const char* name);
/// The block of this rank in the running thread's cluster, a fault if it has ended.
Block& block_of_cluster(int rank);
/// All accesses so far by each of these threads come before all later ones by each.
void order(const std::vector<Thread*>& threads);

/// A counter in global memory: a release makes what its thread knows known to whoever acquires it.
void release_at(const void* counter);
void acquire_at(const void* counter);
void forget_counters();

}  // namespace gptrain::emulator
