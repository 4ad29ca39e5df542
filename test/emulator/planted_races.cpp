// Races of each kind, planted in small kernels: the emulator finds each of them, in any order of
// threads and blocks. Each has a correct version next to it.
#include "catch.h"
#include "cuda/device/hopper.cuh"
#include "emulator/planted.h"

using namespace gptrain;
using namespace gptrain::cuda;
using namespace gptrain::test;

namespace {

constexpr int threads = 128;

struct Floats {
    alignas(1024) float values[threads];
};
constexpr LaunchShape one_block = {.threads = threads, .shared_bytes = sizeof(Floats)};
constexpr LaunchShape one_warp = {.threads = warp_threads, .shared_bytes = sizeof(Floats)};
constexpr LaunchShape two_blocks = {.blocks = 2, .threads = warp_threads};

// ---- threads of a block -------------------------------------------------------------------------

void no_block_barrier(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    shared.values[thread_index()] = in[thread_index()];
    if (version == Version::right) block_barrier();
    out[thread_index()] = shared.values[threads - 1 - thread_index()];
}

/// One thread reads what the others then overwrite.
void no_barrier_after_reading(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    shared.values[thread_index()] = in[thread_index()];
    block_barrier();
    out[thread_index()] = thread_index() == 77 ? shared.values[5] : 0;
    if (version == Version::right) block_barrier();
    shared.values[thread_index()] = 0;
}

/// A shuffle passes registers on; it orders no memory.
void shuffle_for_barrier(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    shared.values[thread_index()] = in[thread_index()];
    version == Version::right ? warp_barrier() : static_cast<void>(shuffle(1, 0));
    out[thread_index()] = shared.values[thread_index() ^ 1];
}

/// A warp's barrier orders no other warps.
void warp_barrier_for_block(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    shared.values[thread_index()] = in[thread_index()];
    version == Version::right ? block_barrier() : warp_barrier();
    out[thread_index()] = shared.values[thread_index() ^ 32];
}

/// Warps 0 and 1 write for warps 2 and 3, who do not wait for both.
void named_barrier_without_one_writer(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    const int warp = warp_index();
    const int count = version == Version::right ? threads : threads - warp_threads;
    if (warp < 2) {
        shared.values[thread_index()] = in[thread_index()];
        if (warp == 0 || version == Version::right) barrier_arrive(3, count);
        return;
    }
    barrier_wait(3, count);
    out[thread_index() - 64] = shared.values[thread_index() - 64];
}

void plain_counter(Version version, const float* in, float* out) {
    auto* counter = reinterpret_cast<unsigned*>(out + counter_place);
    if (version == Version::right) {
        atomic_add(counter, 1u);
    } else {
        *counter += 1;
    }
    out[thread_index()] = in[thread_index()];
}

/// An atomic operation orders nothing but itself.
void atomic_for_barrier(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    auto* counter = reinterpret_cast<unsigned*>(out + counter_place);
    shared.values[thread_index()] = in[thread_index()];
    atomic_add(counter, 1u);
    if (version == Version::right) block_barrier();
    out[thread_index()] = shared.values[threads - 1 - thread_index()];
}

void reads_a_counter_early(Version version, const float* in, float* out) {
    auto* counter = reinterpret_cast<unsigned*>(out + counter_place);
    atomic_add(counter, 1u);
    if (version == Version::right) block_barrier();
    out[thread_index()] = in[*counter % threads];
}

// ---- blocks -------------------------------------------------------------------------------------

void blocks_write_one_place(Version version, const float* in, float* out) {
    const int block = version == Version::right ? block_index().x : 0;
    out[block * warp_threads + lane_index()] = in[lane_index()];
}

void block_reads_what_another_writes(Version version, const float* in, float* out) {
    const int other = version == Version::right ? block_index().x : 1 - block_index().x;
    out[block_index().x * 32 + lane_index()] = in[lane_index()];
    out[64 + block_index().x * 32 + lane_index()] = out[other * 32 + lane_index()];
}

/// The second block waits for the first one's number; in the planted version without order.
template <bool acquires, bool releases>
void hand_over(Version version, const float* in, float* out) {
    auto* turn = reinterpret_cast<unsigned*>(out + counter_place);
    if (lane_index() != 0) return;
    if (block_index().x == 0) {
        out[1] = in[7];
        if (version == Version::right || releases) {
            store_release(turn, 1);
        } else {
            atomic_add(turn, 1u);
        }
        out[0] = 1;
    } else if (version == Version::right || acquires) {
        while (load_acquire(turn) == 0)
            spin_pause();
        out[2] = out[1];
    } else {
        while (atomic_add(turn, 0u) == 0)
            spin_pause();
        out[2] = out[1];
    }
}

// ---- copy_async ---------------------------------------------------------------------------------

/// A thread waits for its own copies alone.
void no_barrier_after_copies(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    copy_async<4>(shared.values + thread_index(), in + thread_index(), true);
    copy_async_commit();
    copy_async_wait<0>();
    if (version == Version::right) block_barrier();
    out[thread_index()] = shared.values[threads - 1 - thread_index()];
}

/// A copy may arrive before others have read what it overwrites.
void early_copy(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    shared.values[thread_index()] = in[thread_index()];
    block_barrier();
    out[thread_index()] = shared.values[threads - 1 - thread_index()];
    if (version == Version::right) block_barrier();
    copy_async<4>(shared.values + thread_index(), in + thread_index(), true);
    copy_async_commit();
    copy_async_wait<0>();
}

// ---- transaction barriers and bulk copies -------------------------------------------------------

struct BulkShared {
    alignas(1024) float values[threads];
    Barrier full;
    Barrier refilled;
    Barrier empty;
};
constexpr LaunchShape bulk_block = {.threads = threads, .shared_bytes = sizeof(BulkShared)};

BulkShared& bulk_shared() {
    BulkShared& shared = shared_memory<BulkShared>();
    if (thread_index() == 0) {
        init(shared.full, 1);
        init(shared.refilled, 1);
        init(shared.empty, threads);
        fence_barriers();
    }
    block_barrier();
    return shared;
}

void load_values(BulkShared& shared, const float* in, Barrier& full) {
    arrive_expect_bytes(full, sizeof shared.values);
    load_bulk(shared.values, in, sizeof shared.values, full);
}

void barrier_used_early(Version version, const float* in, float* out) {
    BulkShared& shared = shared_memory<BulkShared>();
    if (thread_index() == 0) {
        init(shared.full, threads);
        fence_barriers();
    }
    // With a shuffle the barrier exists in time, in one order of threads at least.
    version == Version::right ? block_barrier() : static_cast<void>(shuffle(1, 0));
    arrive(shared.full);
    wait(shared.full, 0);
    out[thread_index()] = in[thread_index()];
}

void unfenced_barrier(Version version, const float* in, float* out) {
    BulkShared& shared = shared_memory<BulkShared>();
    if (thread_index() == 0) {
        init(shared.full, 1);
        if (version == Version::right) fence_barriers();
        load_values(shared, in, shared.full);
    }
    block_barrier();
    wait(shared.full, 0);
    out[thread_index()] = shared.values[thread_index()];
}

/// All but one thread wait for the copy.
void one_thread_does_not_wait(Version version, const float* in, float* out) {
    BulkShared& shared = bulk_shared();
    if (thread_index() == 0) load_values(shared, in, shared.full);
    if (thread_index() != 99 || version == Version::right) wait(shared.full, 0);
    out[thread_index()] = shared.values[thread_index()];
    wait(shared.full, 0);
}

/// The next copy starts while others still read the last one.
void refilled_early(Version version, const float* in, float* out) {
    BulkShared& shared = bulk_shared();
    if (thread_index() == 0) load_values(shared, in, shared.full);
    wait(shared.full, 0);
    const float first = shared.values[threads - 1 - thread_index()];
    arrive(shared.empty);
    if (thread_index() == 0) {
        if (version == Version::right) wait(shared.empty, 0);
        load_values(shared, in + threads, shared.refilled);
    }
    wait(shared.refilled, 0);
    out[thread_index()] = first + shared.values[thread_index()];
}

void unfenced_store(Version version, const float* in, float* out) {
    BulkShared& shared = bulk_shared();
    shared.values[thread_index()] = in[thread_index()];
    if (version == Version::right) fence_async_proxy();
    block_barrier();
    if (thread_index() != 0) return;
    store_bulk(out, shared.values, sizeof shared.values);
    bulk_commit();
    bulk_wait<0>();
}

/// A fence orders what its thread has written, not what it writes later.
void fenced_too_early(Version version, const float* in, float* out) {
    BulkShared& shared = bulk_shared();
    if (version == Version::planted) fence_async_proxy();
    shared.values[thread_index()] = in[thread_index()];
    if (version == Version::right) fence_async_proxy();
    block_barrier();
    if (thread_index() != 0) return;
    store_bulk(out, shared.values, sizeof shared.values);
    bulk_commit();
    bulk_wait<0>();
}

void source_overwritten(Version version, const float* in, float* out) {
    BulkShared& shared = bulk_shared();
    shared.values[thread_index()] = in[thread_index()];
    fence_async_proxy();
    block_barrier();
    if (thread_index() == 0) {
        store_bulk(out, shared.values, sizeof shared.values);
        bulk_commit();
        if (version == Version::right) bulk_wait_read<0>();
    }
    block_barrier();
    shared.values[thread_index()] = -1;
    if (thread_index() == 0) bulk_wait<0>();
}

/// Reads back what a store that has only read its source may not have written.
void read_back_early(Version version, const float* in, float* out) {
    BulkShared& shared = bulk_shared();
    shared.values[thread_index()] = in[thread_index()];
    fence_async_proxy();
    block_barrier();
    if (thread_index() == 0) {
        store_bulk(out, shared.values, sizeof shared.values);
        bulk_commit();
        version == Version::right ? bulk_wait<0>() : bulk_wait_read<0>();
    }
    block_barrier();
    out[threads + thread_index()] = out[thread_index()];
    if (thread_index() == 0) bulk_wait<0>();
}

/// Adds before the first store has written.
void added_early(Version version, const float* in, float* out) {
    BulkShared& shared = bulk_shared();
    shared.values[thread_index()] = in[thread_index()];
    fence_async_proxy();
    block_barrier();
    if (thread_index() != 0) return;
    store_bulk(out, shared.values, sizeof shared.values);
    bulk_commit();
    version == Version::right ? bulk_wait<0>() : bulk_wait_read<0>();
    add_bulk(out, shared.values, sizeof shared.values);
    bulk_commit();
    bulk_wait<0>();
}

/// What a counter says, a bulk copy knows only after a fence.
void unfenced_load_after_counter(Version version, const float* in, float* out) {
    BulkShared& shared = bulk_shared();
    auto* turn = reinterpret_cast<unsigned*>(out + counter_place);
    if (block_index().x == 0) {
        out[thread_index()] = in[thread_index()];
        fence_async_proxy_global();
        block_barrier();
        if (thread_index() == 0) store_release(turn, 1);
        return;
    }
    if (thread_index() == 0) {
        while (load_acquire(turn) == 0)
            spin_pause();
        if (version == Version::right) fence_async_proxy_global();
        load_values(shared, out, shared.full);
    }
    wait(shared.full, 0);
    out[threads + thread_index()] = shared.values[thread_index()];
}
constexpr LaunchShape two_bulk_blocks = {
    .blocks = 2, .threads = threads, .shared_bytes = sizeof(BulkShared)};

// ---- products of a warpgroup --------------------------------------------------------------------

struct OperandShared {
    alignas(1024) Bf16 a[64 * 64];
    Bf16 b[64 * 64];
};
constexpr LaunchShape product_block = {.threads = threads, .shared_bytes = sizeof(OperandShared)};

OperandShared& operands(const float* in, bool fenced) {
    OperandShared& shared = shared_memory<OperandShared>();
    for (int i = thread_index(); i < 64 * 64; i += threads) {
        shared.a[i] = narrow<Bf16>(in[i % 97]);
        shared.b[i] = narrow<Bf16>(in[i % 89]);
    }
    if (fenced) fence_async_proxy();
    return shared;
}

void multiply(float (&c)[32], const OperandShared& shared) {
    warpgroup_multiply(c, k_major(shared_address(shared.a)), k_major(shared_address(shared.b)),
                       true);
    warpgroup_commit();
}

void unfenced_operands(Version version, const float* in, float* out) {
    const OperandShared& shared = operands(in, version == Version::right);
    block_barrier();
    float c[32] = {};
    warpgroup_fence();
    multiply(c, shared);
    warpgroup_wait<0>();
    pin_registers(c);
    out[thread_index()] = c[0];
}

/// The warps of a warpgroup do not wait for each other before a product.
void operands_of_other_warps(Version version, const float* in, float* out) {
    const OperandShared& shared = operands(in, true);
    version == Version::right ? block_barrier() : warp_barrier();
    float c[32] = {};
    warpgroup_fence();
    multiply(c, shared);
    warpgroup_wait<0>();
    pin_registers(c);
    out[thread_index()] = c[0];
}

/// Nor after it: each knows that its own part is done.
void operand_overwritten(Version version, const float* in, float* out) {
    OperandShared& shared = operands(in, true);
    block_barrier();
    float c[32] = {};
    warpgroup_fence();
    multiply(c, shared);
    warpgroup_wait<0>();
    pin_registers(c);
    if (version == Version::right) block_barrier();
    shared.b[thread_index()] = narrow<Bf16>(0);
    out[thread_index()] = c[0];
}

void unfenced_registers(Version version, const float* in, float* out) {
    const OperandShared& shared = operands(in, true);
    block_barrier();
    float c[32] = {};
    for (int round = 0; round < 2; ++round) {
        if (round == 0 || version == Version::right) warpgroup_fence();
        multiply(c, shared);
        warpgroup_wait<0>();
        pin_registers(c);
        c[0] += 1;
    }
    out[thread_index()] = c[0];
}

void unpinned_sums(Version version, const float* in, float* out) {
    const OperandShared& shared = operands(in, true);
    block_barrier();
    float c[32] = {};
    warpgroup_fence();
    multiply(c, shared);
    warpgroup_wait<0>();
    if (version == Version::right) pin_registers(c);
    out[thread_index()] = c[0];
}

}  // namespace

TEST_CASE("races between the threads of a block are found", "[emulator]") {
    check_race(no_block_barrier, one_block);
    check_race(no_barrier_after_reading, one_block);
    check_race(shuffle_for_barrier, one_warp);
    check_race(warp_barrier_for_block, one_block);
    check_race(named_barrier_without_one_writer, one_block);
    check_race(plain_counter, one_block);
    check_race(atomic_for_barrier, one_block);
    check_race(reads_a_counter_early, one_block);
}

TEST_CASE("races between blocks are found", "[emulator]") {
    check_race(blocks_write_one_place, two_blocks);
    check_race(block_reads_what_another_writes, two_blocks);
    check_race(hand_over<true, false>, two_blocks);
    check_race(hand_over<false, true>, two_blocks);
}

TEST_CASE("races with asynchronous copies are found", "[emulator]") {
    check_race(no_barrier_after_copies, one_block);
    check_race(early_copy, one_block);
}

TEST_CASE("races with bulk copies are found", "[emulator]") {
    check_race(barrier_used_early, bulk_block);
    check_refused(unfenced_barrier, bulk_block, "without fence_barriers");
    check_race(one_thread_does_not_wait, bulk_block);
    check_race(refilled_early, bulk_block);
    check_race(unfenced_store, bulk_block, "no proxy fence in between");
    check_race(fenced_too_early, bulk_block, "no proxy fence in between");
    check_race(source_overwritten, bulk_block);
    check_race(read_back_early, bulk_block);
    check_race(added_early, bulk_block);
    check_race(unfenced_load_after_counter, two_bulk_blocks, "no proxy fence in between");
}

TEST_CASE("races with the products of a warpgroup are found", "[emulator]") {
    check_race(unfenced_operands, product_block, "no proxy fence in between");
    check_race(operands_of_other_warps, product_block);
    check_race(operand_overwritten, product_block);
    check_refused(unfenced_registers, product_block, "no warpgroup_fence precedes");
    check_visible(unpinned_sums, product_block);
}
