// Twin of cuda/device/cluster.cuh for the host compiler.
#pragma once

#include "cuda/device/hopper.cuh"

namespace gptrain::cuda {

int cluster_rank();
void cluster_barrier(Site where = Site::current());
void arrive_at(Barrier& barrier, int rank, Site where = Site::current());
void wait_for_cluster(Barrier& barrier, int parity, Site where = Site::current());
void store_at(unsigned& word, unsigned value, int rank);
void multicast_box(void* to_shared, const TensorMap& map, const BoxPlace& place, Barrier& barrier,
                   unsigned ranks);

}  // namespace gptrain::cuda
