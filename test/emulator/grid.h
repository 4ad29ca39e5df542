// Runs a kernel's grid: its threads as fibers, one after the other, in a chosen order. What makes
// threads wait for each other is here; what they do meanwhile is in the twins of cuda/.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/fiber.h"

namespace gptrain::emulator {

/// A callable that is not owned: threads that are given up in the middle leave nothing behind.
template <class Signature>
class FunctionRef;
template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
public:
    template <class F>
    FunctionRef(const F& function)  // NOLINT: stands for the function
        : function_(&function), call_([](const void* f, Arguments... arguments) {
              return (*static_cast<const F*>(f))(arguments...);
          }) {}
    Result operator()(Arguments... arguments) const { return call_(function_, arguments...); }

private:
    const void* function_;
    Result (*call_)(const void*, Arguments...);
};

/// In which order threads of a block and blocks of a grid take their turns. Results must not depend
/// on it.
enum class Order { ascending, descending, shuffled };

/// The emulated device and how it runs.
struct Settings {
    Order order = Order::ascending;
    int major = 8;
    int minor = 0;
    std::int64_t shared_bytes = 99 << 10;
    std::string name = "emulated device";
};
/// For all launches from now on.
Settings& settings();

struct GridShape {
    std::int64_t blocks[3];
    int threads;
    std::int64_t shared_bytes;
};

/// Runs `kernel` once for every thread of the grid. A rule of CUDA that is broken is an Error (bug)
/// that names the block and thread.
void run_grid(const GridShape& shape, const std::function<void()>& kernel);

// ---- for the twins: what the running thread can do ----------------------------------------------

/// A fault of the kernel, by the running thread.
[[noreturn]] void fault(const std::string& what);

class Block;

/// Copies that are under way, in groups by their commit.
class CopyGroups {
public:
    void add(std::function<void()> copy) { open_.push_back(std::move(copy)); }
    void commit() { groups_.push_back(std::exchange(open_, {})); }
    /// Does the copies of all but the newest `pending` groups.
    void complete(std::size_t pending) {
        for (; groups_.size() > pending; groups_.pop_front())
            for (const auto& copy : groups_.front())
                copy();
    }
    bool idle() const { return groups_.empty() && open_.empty(); }

private:
    std::vector<std::function<void()>> open_;
    std::deque<std::vector<std::function<void()>>> groups_;
};

/// An operand of a product in shared memory.
struct SharedOperand {
    const std::byte* begin = nullptr;  ///< null: it is in registers
    bool k_major = true;
    int panel_bytes = 0;
    bool operator==(const SharedOperand&) const = default;
};

/// A product of a warpgroup as one of its threads has issued it.
struct WarpgroupProduct {
    float* c = nullptr;
    int columns = 0;  ///< N
    bool accumulate = false;
    SharedOperand a;
    SharedOperand b;
    std::uint32_t a_registers[4] = {};
    bool same_for_all(const WarpgroupProduct& other) const {
        return columns == other.columns && accumulate == other.accumulate && a == other.a &&
               b == other.b;
    }
};

struct Thread {
    Block* block = nullptr;
    int index = 0;
    Fiber fiber;
    const char* waits_for = nullptr;  ///< for reports; null: it does not wait
    bool spins = false;
    CopyGroups copies;       ///< by copy_async
    CopyGroups bulk_stores;  ///< stores and additions by the bulk engine
    std::vector<WarpgroupProduct> open_products;
    std::deque<std::vector<WarpgroupProduct>> products;           ///< in groups by their commit
    std::unordered_map<float*, std::vector<float>> accumulators;  ///< hidden while products run
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
};

/// A barrier of cuda/device/hopper.cuh.
struct BarrierState {
    struct Copy {
        std::int64_t bytes;
        std::function<void()> work;
    };
    int arrivals = 0;        ///< of a phase
    int missing = 0;         ///< of this phase
    std::int64_t bytes = 0;  ///< expected and not yet there
    int phase = 0;
    std::deque<Copy> copies;  ///< under way
};

class Block {
public:
    Block(const GridShape& shape, const std::int64_t (&index)[3]);

    const GridShape& shape;
    std::int64_t index[3];
    std::vector<std::byte> shared_memory;
    std::byte* shared = nullptr;  ///< aligned part of it
    std::vector<Thread*> threads;
    std::vector<Meeting> warps;
    std::vector<Meeting> warpgroups;
    Meeting all;
    NamedBarrier named[16];
    std::unordered_map<const void*, BarrierState> barriers;
    std::uint64_t progress = 0;
    int live = 0;
};

Thread& current();
/// Lets others run until `ready()`; `name` says for what.
void wait_until(const char* name, FunctionRef<bool()> ready);
/// In a loop that waits for another thread, perhaps of a lower block.
void spin();
/// Something has happened that others may wait for.
void note_progress();

/// Called by all threads of the warp (`threads` 32) or warpgroup (128) of the running thread:
/// `work` is called once, by the last of them, with the argument of each.
void meet(int threads, const void* kind, const char* name, void* argument,
          FunctionRef<void(std::vector<void*>&)> work);
void meet_block(const char* name);

}  // namespace gptrain::emulator
