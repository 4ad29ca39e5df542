// Races of each kind, planted in small kernels: the emulator finds each of them, in any order of
// threads and blocks. Each has a correct version next to it.
#include "catch.h"
#include "emulator/planted_kernels.h"

using namespace gptrain;
using namespace gptrain::cuda;
using namespace gptrain::test;

namespace {

constexpr LaunchShape one_warp = {.threads = warp_threads, .shared_bytes = sizeof(Floats)};
constexpr LaunchShape two_warps = {.threads = 2 * warp_threads, .shared_bytes = sizeof(Floats)};
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

/// The lane that wrote reads first.
void no_warp_barrier(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    if (lane_index() == 0) shared.values[0] = in[7];
    if (version == Version::right) warp_barrier();
    out[thread_index()] = shared.values[0];
}

/// Lanes of the first warp read at different times, the planted version once more after its
/// barrier. A thread of the second warp, which knows of the other reads, then writes.
void late_read(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    auto* turn = reinterpret_cast<unsigned*>(out + counter_place);
    if (thread_index() == 0) shared.values[0] = in[7];
    block_barrier();
    const int thread = thread_index();
    if (thread >= warp_threads) {
        barrier_wait(3, 2 * warp_threads);
        if (thread > warp_threads) return;
        while (load_acquire(turn) == 0)
            spin_pause();
        shared.values[0] = in[8];
        return;
    }
    float sum = 0;
    if (thread == 1) fence_async_proxy();
    if (thread == 1 || thread == 2) sum += shared.values[0];
    barrier_arrive(3, 2 * warp_threads);
    if (thread == 2 && version == Version::planted) sum += shared.values[0];
    if (thread == 3) {
        fence_async_proxy();
        sum += shared.values[0];
        store_release(turn, 1);
    }
    out[thread] = sum;
}

/// A warp's barrier orders no other warps, and adds nothing to what an earlier barrier ordered.
void warp_barrier_for_block(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    block_barrier();
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

// ---- constants ----------------------------------------------------------------------------------

/// A barrier orders the write before the load, but does not update the cache of constants.
void constant_after_write(Version version, const float* in, float* out) {
    out[thread_index()] = in[thread_index()];
    block_barrier();
    const float* from = out + (threads - 1 - thread_index());
    out[threads + thread_index()] = version == Version::right ? load(from) : load_constant(from);
}

/// The compiler may move such a load behind the barrier.
void constant_before_write(Version version, const float* in, float* out) {
    const float* from = out + counter_place;
    const float before = version == Version::right ? load(from) : load_constant(from);
    block_barrier();
    out[thread_index()] = in[thread_index()] + before;
    if (thread_index() == 0) out[counter_place] = 1;
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

}  // namespace

TEST_CASE("races between the threads of a block are found", "[emulator]") {
    check_race(no_block_barrier, one_block);
    check_race(no_barrier_after_reading, one_block);
    check_race(shuffle_for_barrier, one_warp);
    check_race(no_warp_barrier, one_warp);
    check_race(late_read, two_warps);
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

TEST_CASE("a constant that its own launch writes is found, in order or not", "[emulator]") {
    check_race(constant_after_write, one_block, "load_constant and a write");
    check_race(constant_before_write, one_block, "load_constant and a write");
}

TEST_CASE("races with asynchronous copies are found", "[emulator]") {
    check_race(no_barrier_after_copies, one_block);
    check_race(early_copy, one_block);
}
