// Clusters of sm_90a: blocks that run at the same time and reach each other's shared memory
// (LaunchShape::cluster_blocks). One instruction each. A block must not end while another one of
// its cluster may still access its shared memory.
#pragma once

#include "cuda/device/hopper.cuh"

namespace gptrain::cuda {

/// The block's index in its cluster.
__device__ inline int cluster_rank() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
/// Waits for all threads of all blocks of the cluster. What they wrote before is visible
/// afterwards.
__device__ inline void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

/// Arrives at the same barrier in the block of this rank, perhaps the thread's own. Whoever waits
/// for it uses wait_for_cluster.
__device__ inline void arrive_at(Barrier& barrier, int rank) {
    asm volatile(
        "{\n.reg .b32 place;\nmapa.shared::cluster.u32 place, %0, %1;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [place];\n}\n" ::"r"(
            shared_address(&barrier)),
        "r"(rank)
        : "memory");
}
/// As wait, where other blocks of the cluster arrive.
__device__ inline void wait_for_cluster(Barrier& barrier, int parity) {
    asm volatile(
        "{\n.reg .pred done;\nwaiting:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@done bra finished;\nbra waiting;\nfinished:\n}\n" ::"r"(shared_address(&barrier)),
        "r"(parity)
        : "memory");
}
/// Writes the same word in the block of this rank.
__device__ inline void store_at(unsigned& word, unsigned value, int rank) {
    asm volatile(
        "{\n.reg .b32 place;\nmapa.shared::cluster.u32 place, %0, %1;\n"
        "st.shared::cluster.u32 [place], %2;\n}\n" ::"r"(shared_address(&word)),
        "r"(rank), "r"(value)
        : "memory");
}

/// As load_box, to the same place in each block whose rank is a bit of `ranks`. In each of them,
/// the same barrier counts the bytes that this block gets.
__device__ inline void multicast_box(void* to_shared, const TensorMap& map, const BoxPlace& place,
                                     Barrier& barrier, unsigned ranks) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(
            shared_address(to_shared)),
        "l"(&map), "r"(place.feature), "r"(place.head), "r"(place.row), "r"(place.sequence),
        "r"(shared_address(&barrier)), "h"(static_cast<unsigned short>(ranks))
        : "memory");
}

}  // namespace gptrain::cuda
