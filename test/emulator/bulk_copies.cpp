// Barriers that count bytes, and bulk copies (test/emulator/cuda/device/hopper.cuh).
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cuda/device/cluster.cuh"
#include "emulator/counts.h"
#include "emulator/races.h"
#include "emulator/tensor_map.h"

namespace gptrain::cuda {
namespace {

constexpr int poison = 0xff;
constexpr int row_bytes = 128;

emulator::BarrierState& state_of(const Barrier& barrier, emulator::Block& block) {
    auto& barriers = block.barriers;
    const auto found = barriers.find(&barrier);
    if (found == barriers.end()) emulator::fault("a barrier that was never initialised");
    return found->second;
}

/// Of a barrier of this block.
void complete_phase_if_due(emulator::BarrierState& state, const emulator::Block& block) {
    if (state.missing > 0) return;
    if (state.bytes < 0) emulator::fault("more bytes have come to a barrier than were expected");
    if (state.bytes > 0) return;
    state.missing = state.arrivals;
    ++state.phase;
    ++state.events;
    state.completed_by_others = std::exchange(state.from_others, false);
    const auto time = static_cast<emulator::Time>(state.phase);
    for (const emulator::Operation operation : state.operations)
        emulator::complete_operation(operation, block, state.agent, time);
    state.operations.clear();
    state.completed = std::exchange(state.arriving, {});
    state.completed.all.raise(block.serial, state.agent, time);
    emulator::note_progress();
}

/// A race unless the barrier's initialisation comes before.
void note_use(const Barrier& barrier) {
    emulator::note_access(&barrier, sizeof barrier, emulator::AccessKind::atomic,
                          "a use of a barrier");
}

void arrive_with(const Barrier& barrier, emulator::Block& block, std::int64_t bytes) {
    emulator::BarrierState& state = state_of(barrier, block);
    note_use(barrier);
    state.from_others = state.from_others || &block != emulator::current().block;
    emulator::current().publish(state.arriving);
    if (state.missing == 0) emulator::fault("more arrivals at a barrier than it was made for");
    state.bytes += bytes;
    --state.missing;
    emulator::note_progress();
    complete_phase_if_due(state, block);
}

void add_load(const Barrier& barrier, emulator::Block& block, std::int64_t bytes,
              emulator::Operation operation, std::function<void()> work) {
    emulator::BarrierState& state = state_of(barrier, block);
    note_use(barrier);
    if (!state.fenced) emulator::fault("a bulk copy to a barrier without fence_barriers");
    state.copies.push_back({bytes, operation, std::move(work)});
    ++state.events;
    emulator::note_progress();
}

/// Reads `bytes` at bulk_wait_read and passes them to `write` at bulk_wait.
void add_store(const void* from_shared, std::size_t bytes,
               std::function<void(const std::byte*)> write) {
    const auto read = std::make_shared<std::vector<std::byte>>(bytes);
    emulator::current().bulk_stores.add(
        {.read = [=] { std::memcpy(read->data(), from_shared, bytes); },
         .write = [=, write = std::move(write)] { write(read->data()); }});
}

void note_read(emulator::Operation operation, const void* p, std::size_t bytes) {
    emulator::note_access_of(operation, p, bytes, emulator::AccessKind::read,
                             "a read by a bulk copy");
}
void note_write(emulator::Operation operation, const void* p, std::size_t bytes) {
    emulator::note_access_of(operation, p, bytes, emulator::AccessKind::write,
                             "a write by a bulk copy");
}
/// Additions count as writes: without order their sum is not deterministic.
void note_store(const void* to_global, const void* from_shared, std::size_t bytes) {
    const emulator::BulkStores::Operations store = emulator::current().bulk_stores.open();
    note_read(store.reads, from_shared, bytes);
    note_write(store.writes, to_global, bytes);
}

/// Where a row of a box is in the tensor; null if outside.
std::byte* row_of(const TensorMapRequest& map, const BoxPlace& place, int row) {
    const std::int64_t at[4] = {place.feature, place.head, place.row + row, place.sequence};
    std::byte* data = map.data + at[0] * size_of(DType::bf16);
    for (int dim = 0; dim < 4; ++dim) {
        if (at[dim] < 0 || at[dim] >= static_cast<std::int64_t>(map.sizes[dim])) return nullptr;
        if (dim > 0) data += at[dim] * static_cast<std::int64_t>(map.stride_bytes[dim - 1]);
    }
    return data;
}

/// Calls visit(offset in the box, address in the tensor or null) for all pieces of 16 bytes of a
/// box that begins at this offset in shared memory.
template <class Visit>
void for_box(const TensorMapRequest& map, const BoxPlace& place, std::int64_t begin,
             const Visit& visit) {
    for (int row = 0; row < static_cast<int>(map.box[2]); ++row) {
        std::byte* in_tensor = row_of(map, place, row);
        for (int piece = 0; piece < row_bytes; piece += 16) {
            const auto offset = static_cast<int>(begin) + row * row_bytes + piece;
            // All matrices here have rows of whole pieces.
            const bool outside =
                in_tensor == nullptr || place.feature + piece / 2 >= static_cast<int>(map.sizes[0]);
            visit(swizzle_128(offset) - begin, outside ? nullptr : in_tensor + piece);
        }
    }
}

std::size_t check_box(const void* shared, const TensorMapRequest& map, const BoxPlace& place) {
    const auto bytes = static_cast<std::size_t>(map.box[2]) * row_bytes;
    emulator::check_shared(shared, bytes, 1024, "a box");
    emulator::count_bytes(static_cast<std::int64_t>(bytes));
    if (map.box[0] * 2 != row_bytes || map.box[1] != 1 || map.box[3] != 1)
        emulator::fault("a box other than rows of one head");
    if (place.feature % 64 != 0) emulator::fault("a box that begins inside of a panel");
    return bytes;
}

void check_bulk(const void* shared, const void* global, int bytes) {
    const auto size = static_cast<std::size_t>(bytes);
    if (bytes <= 0 || bytes % 16 != 0) emulator::fault(text("a bulk copy of ", bytes, " bytes"));
    emulator::check_shared(shared, size, 16, "a bulk copy");
    emulator::count_bytes(bytes);
    emulator::check_access(global, size, 16, "a bulk copy");
}

}  // namespace

void init(Barrier& barrier, int arrivals) {
    emulator::check_shared(&barrier, sizeof barrier, alignof(Barrier), "a barrier");
    emulator::Block& block = *emulator::current().block;
    if (block.barriers.contains(&barrier)) emulator::fault("a barrier that is initialised twice");
    if (arrivals < 1) emulator::fault(text("a barrier of ", arrivals, " arrivals"));
    emulator::note_access(&barrier, sizeof barrier, emulator::AccessKind::write,
                          "the initialisation of a barrier");
    const emulator::Agent agent = block.next_barrier();
    emulator::BarrierState& state = block.barriers[&barrier];
    state.agent = agent;
    state.arrivals = arrivals;
    state.missing = arrivals;
}

void fence_barriers(Site where) {
    if (emulator::removed(where)) return;
    for (auto& [address, state] : emulator::current().block->barriers)
        state.fenced = true;
}

void arrive(Barrier& barrier, Site where) {
    if (!emulator::removed(where)) arrive_with(barrier, *emulator::current().block, 0);
}

void arrive_expect_bytes(Barrier& barrier, int bytes, Site where) {
    if (!emulator::removed(where)) arrive_with(barrier, *emulator::current().block, bytes);
}

namespace {

void wait_in(Barrier& barrier, int parity, bool of_cluster) {
    if (parity != 0 && parity != 1) emulator::fault(text("a wait for parity ", parity));
    emulator::Block& block = *emulator::current().block;
    emulator::BarrierState& state = state_of(barrier, block);
    note_use(barrier);
    emulator::wait_until("wait for a barrier", state.events, [&] {
        while (state.phase % 2 == parity && !state.copies.empty()) {
            const emulator::BarrierState::Copy copy = std::move(state.copies.front());
            state.copies.pop_front();
            copy.work();
            state.bytes -= copy.bytes;
            state.operations.push_back(copy.operation);
            emulator::note_progress();
            complete_phase_if_due(state, block);
        }
        return state.phase % 2 != parity;
    });
    if (state.completed_by_others && !of_cluster)
        emulator::fault("a wait of one block for arrivals of another");
    emulator::current().known.join(state.completed);
}

}  // namespace

void wait(Barrier& barrier, int parity, Site where) {
    if (!emulator::removed(where)) wait_in(barrier, parity, false);
}

namespace {

/// Fills the box at `to_shared` in a block of the cluster; its own barrier counts the bytes.
void load_box_of(emulator::Block& block, std::byte* shared, const TensorMapRequest& map,
                 const BoxPlace& place, std::size_t bytes, const Barrier& barrier) {
    const std::int64_t begin = shared - block.shared;
    const emulator::Operation load = emulator::begin_operation(emulator::Proxy::async);
    for_box(map, place, begin, [&](std::int64_t, const std::byte* from) {
        if (from != nullptr) note_read(load, from, 16);
    });
    note_write(load, shared, bytes);
    std::memset(shared, poison, bytes);
    add_load(barrier, block, static_cast<std::int64_t>(bytes), load, [=] {
        for_box(map, place, begin, [&](std::int64_t to, const std::byte* from) {
            if (from == nullptr) {
                std::memset(shared + to, 0, 16);
            } else {
                std::memcpy(shared + to, from, 16);
            }
        });
    });
}

}  // namespace

void load_box(void* to_shared, const TensorMap& encoded, const BoxPlace& place, Barrier& barrier) {
    const TensorMapRequest map = emulator::decoded(encoded);
    const std::size_t bytes = check_box(to_shared, map, place);
    load_box_of(*emulator::current().block, static_cast<std::byte*>(to_shared), map, place, bytes,
                barrier);
}

void multicast_box(void* to_shared, const TensorMap& encoded, const BoxPlace& place,
                   Barrier& barrier, unsigned ranks) {
    const TensorMapRequest map = emulator::decoded(encoded);
    const std::size_t bytes = check_box(to_shared, map, place);
    if (ranks == 0) emulator::fault("a multicast to no block");
    for (int rank = 0; ranks >> rank != 0; ++rank) {
        if ((ranks >> rank & 1) == 0) continue;
        load_box_of(emulator::block_of_cluster(rank),
                    emulator::place_at(static_cast<std::byte*>(to_shared), rank), map, place, bytes,
                    *emulator::place_at(&barrier, rank));
    }
}

// ---- clusters -----------------------------------------------------------------------------------

int cluster_rank() {
    const emulator::Block& block = *emulator::current().block;
    return static_cast<int>(block.index[0] % block.shape.cluster_blocks);
}

void cluster_barrier(Site where) {
    if (!emulator::removed(where)) emulator::meet_cluster("cluster_barrier");
}

void arrive_at(Barrier& barrier, int rank, Site where) {
    if (emulator::removed(where)) return;
    emulator::check_shared(&barrier, sizeof barrier, alignof(Barrier), "a barrier");
    arrive_with(*emulator::place_at(&barrier, rank), emulator::block_of_cluster(rank), 0);
}

void wait_for_cluster(Barrier& barrier, int parity, Site where) {
    if (!emulator::removed(where)) wait_in(barrier, parity, true);
}

void store_at(unsigned& word, unsigned value, int rank) {
    emulator::check_shared(&word, sizeof word, alignof(unsigned), "store_at");
    unsigned* const to = emulator::place_at(&word, rank);
    emulator::note_access(to, sizeof *to, emulator::AccessKind::write, "store_at");
    std::memcpy(to, &value, sizeof value);
}

void store_box(const TensorMap& encoded, const BoxPlace& place, const void* from_shared) {
    const TensorMapRequest map = emulator::decoded(encoded);
    const std::size_t bytes = check_box(from_shared, map, place);
    // Stricter than PTX, which skips whatever is outside of the tensor.
    if (place.row < 0)
        emulator::fault(text("a store of a box at row ", place.row, ": an H100 stops there"));
    const emulator::BulkStores::Operations store = emulator::current().bulk_stores.open();
    note_read(store.reads, from_shared, bytes);
    const std::int64_t begin = emulator::shared_offset(from_shared);
    for_box(map, place, begin, [&](std::int64_t, const std::byte* to) {
        if (to != nullptr) note_write(store.writes, to, 16);
    });
    add_store(from_shared, bytes, [=](const std::byte* box) {
        for_box(map, place, begin, [&](std::int64_t from, std::byte* to) {
            if (to != nullptr) std::memcpy(to, box + from, 16);
        });
    });
}

void load_bulk(void* to_shared, const void* from_global, int bytes, Barrier& barrier) {
    check_bulk(to_shared, from_global, bytes);
    const auto size = static_cast<std::size_t>(bytes);
    const emulator::Operation load = emulator::begin_operation(emulator::Proxy::async);
    note_read(load, from_global, size);
    note_write(load, to_shared, size);
    std::memset(to_shared, poison, size);
    add_load(barrier, *emulator::current().block, bytes, load,
             [=] { std::memcpy(to_shared, from_global, size); });
}

void store_bulk(void* to_global, const void* from_shared, int bytes) {
    check_bulk(from_shared, to_global, bytes);
    const auto size = static_cast<std::size_t>(bytes);
    note_store(to_global, from_shared, size);
    add_store(from_shared, size,
              [=](const std::byte* from) { std::memcpy(to_global, from, size); });
}

void add_bulk(float* to_global, const float* from_shared, int bytes) {
    check_bulk(from_shared, to_global, bytes);
    const auto size = static_cast<std::size_t>(bytes);
    note_store(to_global, from_shared, size);
    add_store(from_shared, size, [=](const std::byte* from) {
        for (std::size_t i = 0; i < size / sizeof(float); ++i) {
            float x;
            std::memcpy(&x, from + i * sizeof x, sizeof x);
            to_global[i] += x;
        }
    });
}

}  // namespace gptrain::cuda
