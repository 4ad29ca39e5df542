// Helpers that the planted bugs of bugs.cpp, planted_races.cpp and planted_async_races.cpp share.
#pragma once

#include "cuda/device/hopper.cuh"
#include "emulator/planted.h"

namespace gptrain::test {

using namespace cuda;

constexpr int threads = 128;

struct Floats {
    alignas(16) float values[threads];
};
constexpr LaunchShape one_block = {.threads = threads, .shared_bytes = sizeof(Floats)};

// ---- transaction barriers and bulk copies -------------------------------------------------------

struct BulkShared {
    alignas(1024) float values[threads];
    Barrier full;
    Barrier refilled;
    Barrier empty;
};
constexpr LaunchShape bulk_block = {.threads = threads, .shared_bytes = sizeof(BulkShared)};

inline BulkShared& bulk_shared() {
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

/// Overwrites the source of a bulk store before the store has read it.
inline void source_overwritten(Version version, const float* in, float* out) {
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

// ---- products of a warpgroup --------------------------------------------------------------------

struct OperandShared {
    alignas(1024) Bf16 a[64 * 64];
    Bf16 b[64 * 64];
};
constexpr LaunchShape product_block = {.threads = threads, .shared_bytes = sizeof(OperandShared)};

inline OperandShared& operands(const float* in, bool fenced) {
    OperandShared& shared = shared_memory<OperandShared>();
    for (int i = thread_index(); i < 64 * 64; i += threads) {
        shared.a[i] = narrow<Bf16>(in[i % 97]);
        shared.b[i] = narrow<Bf16>(in[i % 89]);
    }
    if (fenced) fence_async_proxy();
    return shared;
}

inline void multiply(float (&c)[32], const OperandShared& shared) {
    warpgroup_multiply(c, k_major(shared_address(shared.a)), k_major(shared_address(shared.b)),
                       true);
    warpgroup_commit();
}

}  // namespace gptrain::test
