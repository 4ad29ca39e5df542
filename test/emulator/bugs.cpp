// Classic bugs, planted in small kernels: the emulator finds each of them. Each has a correct
// version next to it, which passes in all orders.
#include <string>

#include "catch.h"
#include "emulator/planted_kernels.h"

using namespace gptrain;
using namespace gptrain::cuda;
using namespace gptrain::test;

namespace {

// ---- barriers -----------------------------------------------------------------------------------

/// Reads a neighbour's value from shared memory.
void missing_barrier(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    shared.values[thread_index()] = in[thread_index()];
    if (version == Version::right) block_barrier();
    out[thread_index()] = shared.values[(thread_index() + 1) % threads];
}

/// Refills the buffer while other threads still read it.
void early_release(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    float sum = 0;
    for (int round = 0; round < 2; ++round) {
        shared.values[thread_index()] = in[round * threads + thread_index()];
        block_barrier();
        sum += shared.values[threads - 1 - thread_index()];
        if (version == Version::right) block_barrier();
    }
    out[thread_index()] = sum;
}

void diverging_barrier(Version version, const float* in, float* out) {
    if (version == Version::planted && thread_index() == threads - 1) return;
    block_barrier();
    out[thread_index()] = in[thread_index()];
}

void diverging_shuffle(Version version, const float* in, float* out) {
    float x = in[thread_index()];
    if (version == Version::right || lane_index() < 16) {
        x += shuffle_xor(x, 1);
    } else {
        warp_barrier();
    }
    out[thread_index()] = x;
}

void named_barrier_of_wrong_size(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    const bool writes = warp_index() < 2;
    if (writes) shared.values[thread_index()] = in[thread_index()];
    const int all = version == Version::right ? threads : threads / 2;
    if (writes) {
        barrier_arrive(1, all);
        return;
    }
    barrier_wait(1, version == Version::right ? threads : threads / 2);
    out[thread_index() - 64] = shared.values[thread_index() - 64];
}

// ---- copy_async ---------------------------------------------------------------------------------

/// Keeps two groups in flight and reads the older one.
void wrong_wait_count(Version version, const float* in, float* out) {
    struct Shared {
        alignas(16) float values[2][threads * 4];
    };
    auto& shared = *reinterpret_cast<Shared*>(&shared_memory<Floats>());
    for (int stage = 0; stage < 2; ++stage) {
        copy_async_16(shared.values[stage] + 4 * thread_index(),
                      in + (stage * threads + thread_index()) * 4, true);
        copy_async_commit();
    }
    version == Version::right ? copy_async_wait<1>() : copy_async_wait<2>();
    block_barrier();
    out[thread_index()] = shared.values[0][(4 * thread_index() + 4) % (4 * threads)];
    copy_async_wait<0>();
}
constexpr LaunchShape two_stages = {.threads = threads, .shared_bytes = 2 * 16 * threads};

void copy_left_in_flight(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    copy_async<4>(shared.values + thread_index(), in + thread_index(), true);
    copy_async_commit();
    if (version == Version::right) copy_async_wait<0>();
    out[thread_index()] = 1;
}

// ---- addresses ----------------------------------------------------------------------------------

void out_of_bounds(Version version, const float* in, float* out) {
    const std::int64_t at = version == Version::right ? 4095 : 4096;
    out[thread_index()] = load(in + at);
}

void misaligned(Version version, const float* in, float* out) {
    const float* from = in + (version == Version::right ? 4 : 2);
    out[thread_index()] = load(reinterpret_cast<const Vec<float, 4>*>(from))[0];
}

void beyond_shared(Version version, const float* in, float* out) {
    Floats& shared = shared_memory<Floats>();
    const int at = version == Version::right ? thread_index() : thread_index() + 1;
    store(shared.values + at, in[thread_index()]);
    out[thread_index()] = 1;
}

/// Copies 512 bytes of `in`, of which the last half is behind its end.
void beyond_end(Version version, const float* in, float* out) {
    BulkShared& shared = bulk_shared();
    if (thread_index() == 0) {
        arrive_expect_bytes(shared.full, sizeof shared.values);
        const float* from = in + 4096 - (version == Version::right ? threads : threads / 2);
        load_bulk(shared.values, from, sizeof shared.values, shared.full);
    }
    wait(shared.full, 0);
    out[thread_index()] = shared.values[thread_index()];
}

// ---- bulk copies and their barriers -------------------------------------------------------------

void missing_expectation(Version version, const float* in, float* out) {
    BulkShared& shared = bulk_shared();
    if (thread_index() == 0) {
        if (version == Version::right) {
            arrive_expect_bytes(shared.full, sizeof shared.values);
        } else {
            arrive(shared.full);
        }
        load_bulk(shared.values, in, sizeof shared.values, shared.full);
    }
    wait(shared.full, 0);
    out[thread_index()] = 1;
}

void wrong_parity(Version version, const float* in, float* out) {
    BulkShared& shared = bulk_shared();
    if (thread_index() == 0) {
        arrive_expect_bytes(shared.full, sizeof shared.values);
        load_bulk(shared.values, in, sizeof shared.values, shared.full);
    }
    wait(shared.full, 0);
    if (version == Version::planted) wait(shared.full, 1);
    out[thread_index()] = shared.values[thread_index()];
}

void store_left_in_flight(Version version, const float* in, float* out) {
    BulkShared& shared = bulk_shared();
    shared.values[thread_index()] = in[thread_index()];
    fence_async_proxy();
    block_barrier();
    if (thread_index() != 0) return;
    store_bulk(out, shared.values, sizeof shared.values);
    bulk_commit();
    if (version == Version::right) bulk_wait<0>();
}

/// Begins a box before its tensor, [1, 64, 1, 64] in bf16.
void store_before_tensor(Version version, const float* in, float* out) {
    const OperandShared& shared = operands(in, true);
    block_barrier();
    if (thread_index() != 0) return;
    const TensorMap map =
        tensor_map(Tensor(reinterpret_cast<std::byte*>(out), DType::bf16, {1, 64, 1, 64}), 64);
    store_box(map, {0, 0, version == Version::right ? 0 : -1, 0}, shared.a);
    bulk_commit();
    bulk_wait<0>();
}

// ---- products of a warpgroup --------------------------------------------------------------------

void unfinished_product(Version version, const float* in, float* out) {
    const OperandShared& shared = operands(in, true);
    block_barrier();
    float c[32] = {};
    warpgroup_fence();
    multiply(c, shared);
    if (version == Version::right) warpgroup_wait<0>();
    pin_registers(c);
    out[thread_index()] = c[0];
    warpgroup_wait<0>();
}

// ---- order between blocks -----------------------------------------------------------------------

/// Blocks add to one number in turn; in the planted version they wait for a higher block.
void waits_for_higher_block(Version version, const float* in, float* out) {
    auto* turn = reinterpret_cast<unsigned*>(out + counter_place);
    const auto block = static_cast<unsigned>(block_index().x);
    if (thread_index() != 0) return;
    const unsigned wanted = version == Version::right ? block : block + 1;
    if (block > 0 || version == Version::planted) {
        while (load_acquire(turn) != wanted)
            spin_pause();
    }
    out[0] = block == 0 ? in[block] : out[0] * 2 + in[block];
    store_release(turn, block + 1);
}
constexpr LaunchShape some_blocks = {.blocks = 5, .threads = 32};

}  // namespace

TEST_CASE("a missing or early barrier changes the result", "[emulator]") {
    check_visible(missing_barrier, one_block);
    check_visible(early_release, one_block);
}

TEST_CASE("threads that do not meet are found", "[emulator]") {
    check_refused(diverging_barrier, one_block, "others have ended before a block barrier");
    check_refused(diverging_shuffle, one_block, "while others of its warp are in");
    check_visible(named_barrier_of_wrong_size, one_block);
}

TEST_CASE("copies that were not waited for are found", "[emulator]") {
    check_visible(wrong_wait_count, two_stages);
    check_refused(copy_left_in_flight, one_block, "ends with copies by copy_async under way");
}

TEST_CASE("wrong addresses are found", "[emulator]") {
    check_refused(out_of_bounds, one_block, "load: 4 bytes outside of all memory");
    check_refused(beyond_end, bulk_block, "a bulk copy: 512 bytes outside of all memory");
    check_refused(misaligned, one_block, "load: an address that is not a multiple of 16");
    check_refused(beyond_shared, one_block, "store: 4 bytes outside of all memory");
}

TEST_CASE("misused bulk copies are found", "[emulator]") {
    check_visible(source_overwritten, bulk_block);
    check_refused(wrong_parity, bulk_block, "deadlock");
    check_refused(store_left_in_flight, bulk_block, "ends with bulk stores under way");
    check_refused(missing_expectation, bulk_block, "copies to a barrier under way");
    check_refused(store_before_tensor, product_block, "a store of a box at row -1");
}

TEST_CASE("a product that was not waited for is found", "[emulator]") {
    check_visible(unfinished_product, product_block);
    CHECK(error_of(unfinished_product, Version::right, product_block, 8)
              .find("a warpgroup's product on this device") != std::string::npos);
}

TEST_CASE("a block may wait for lower blocks alone", "[emulator]") {
    check_refused(waits_for_higher_block, some_blocks, "blocks wait for each other");
}

TEST_CASE("a launch has limits", "[emulator]") {
    const auto refused = [](const LaunchShape& shape) {
        return error_of(out_of_bounds, Version::right, shape);
    };
    CHECK(refused({.threads = 1025}).find("1025 threads") != std::string::npos);
    CHECK(refused({.blocks = 1, .threads = 32, .blocks_y = 65536}).find("65536") !=
          std::string::npos);
    CHECK(refused({.threads = 32, .shared_bytes = 228 << 10}).find("bytes of shared memory") !=
          std::string::npos);
}
