// Races with work that runs next to the threads: bulk copies and the products of a warpgroup. The
// emulator finds each of them. Each has a correct version next to it.
#include "catch.h"
#include "emulator/planted_kernels.h"

using namespace gptrain;
using namespace gptrain::cuda;
using namespace gptrain::test;

namespace {

// ---- transaction barriers and bulk copies -------------------------------------------------------

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

/// A bulk copy sees the writes before a counter's release only after a fence.
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

/// A thread's first sum of the operands' product.
float first_sum(const OperandShared& shared) {
    float c[32] = {};
    warpgroup_fence();
    multiply(c, shared);
    warpgroup_wait<0>();
    pin_registers(c);
    return c[0];
}

void unfenced_operands(Version version, const float* in, float* out) {
    const OperandShared& shared = operands(in, version == Version::right);
    block_barrier();
    out[thread_index()] = first_sum(shared);
}

/// The warps of a warpgroup do not wait for each other before a product.
void operands_of_other_warps(Version version, const float* in, float* out) {
    const OperandShared& shared = operands(in, true);
    version == Version::right ? block_barrier() : warp_barrier();
    out[thread_index()] = first_sum(shared);
}

/// Only the first one waits for the last thread, which writes the operands.
void one_warp_waits(Version version, const float* in, float* out) {
    OperandShared& shared = shared_memory<OperandShared>();
    if (thread_index() == threads - 1) {
        for (int i = 0; i < 64 * 64; ++i)
            shared.a[i] = shared.b[i] = narrow<Bf16>(in[i % 97]);
        fence_async_proxy();
    }
    const bool waits = warp_index() == 0 || version == Version::right;
    waits ? barrier_wait(3, threads) : barrier_arrive(3, threads);
    out[thread_index()] = first_sum(shared);
}

/// Nor after it: each knows that its own part is done.
void operand_overwritten(Version version, const float* in, float* out) {
    OperandShared& shared = operands(in, true);
    block_barrier();
    const float sum = first_sum(shared);
    if (version == Version::right) block_barrier();
    shared.b[thread_index()] = narrow<Bf16>(0);
    out[thread_index()] = sum;
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
    check_race(one_warp_waits, product_block);
    check_race(operand_overwritten, product_block);
    check_refused(unfenced_registers, product_block, "no warpgroup_fence precedes");
    check_visible(unpinned_sums, product_block);
}
