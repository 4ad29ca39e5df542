// Bugs between the blocks of a cluster. The emulator finds each of them. Each has a correct version
// next to it.
#include "catch.h"
#include "cuda/device/cluster.cuh"
#include "emulator/planted_kernels.h"

using namespace gptrain;
using namespace gptrain::cuda;
using namespace gptrain::test;

namespace {

constexpr int blocks = 2;

struct ClusterShared {
    alignas(1024) std::byte box[64 * 128];
    unsigned word;
    Barrier full;
    Barrier empty;
};
constexpr LaunchShape cluster = {.blocks = blocks,
                                 .threads = threads,
                                 .shared_bytes = sizeof(ClusterShared),
                                 .cluster_blocks = blocks};

/// Without `ready` the other block may use the barriers before they exist.
ClusterShared& cluster_shared(bool ready = true) {
    auto& shared = shared_memory<ClusterShared>();
    if (thread_index() == 0) {
        init(shared.full, 1);
        init(shared.empty, blocks);
        fence_barriers();
    }
    ready ? cluster_barrier() : block_barrier();
    return shared;
}

/// Each block writes a word for the other one and tells it.
template <class Wait>
void exchange(ClusterShared& shared, float* out, const Wait& wait_for_word) {
    if (thread_index() == 0) {
        const int other = 1 - cluster_rank();
        store_at(shared.word, static_cast<unsigned>(7 + other), other);
        arrive_at(shared.full, other);
        wait_for_word();
        out[cluster_rank()] = static_cast<float>(shared.word);
    }
}

void barrier_of_other_block_used_early(Version version, const float*, float* out) {
    ClusterShared& shared = cluster_shared(version == Version::right);
    exchange(shared, out, [&] { wait_for_cluster(shared.full, 0); });
    cluster_barrier();
}

/// The wait sees arrivals of the same block only.
void wait_of_one_block(Version version, const float*, float* out) {
    ClusterShared& shared = cluster_shared();
    exchange(shared, out, [&] {
        version == Version::right ? wait_for_cluster(shared.full, 0) : wait(shared.full, 0);
    });
    cluster_barrier();
}

void reads_word_of_other_block_early(Version version, const float*, float* out) {
    ClusterShared& shared = cluster_shared();
    exchange(shared, out, [&] {
        if (version == Version::right) wait_for_cluster(shared.full, 0);
    });
    cluster_barrier();
}

/// The second block writes to the first one, which does not stay until then.
void ends_before_other_block_writes(Version version, const float*, float* out) {
    ClusterShared& shared = cluster_shared();
    if (cluster_rank() == 1 && thread_index() == 0) {
        // Lets the other block run on.
        atomic_add(reinterpret_cast<unsigned*>(out + counter_place), 1u);
        store_at(shared.word, 1, 0);
    }
    if (thread_index() == 0) out[cluster_rank()] = 1;
    if (version == Version::right) cluster_barrier();
}

TensorMap map_of(const float* in) {
    // 64 rows of 64 elements of 16 bits.
    return matrix_map({reinterpret_cast<std::byte*>(const_cast<float*>(in)), 64, 64, 64}, 64);
}

/// The first block loads a box for both, twice. The second time it waits for the readers of both.
void multicast_while_other_block_reads(Version version, const float* in, float* out) {
    ClusterShared& shared = cluster_shared();
    const TensorMap map = map_of(in);
    float sum = 0;
    for (int lap = 0; lap < 2; ++lap) {
        if (thread_index() == 0) {
            arrive_expect_bytes(shared.full, sizeof shared.box);
            if (cluster_rank() == 0) {
                if (version == Version::right) wait_for_cluster(shared.empty, 1 - lap);
                multicast_box(shared.box, map, {0, 0, 0, 0}, shared.full, 3);
            }
        }
        wait(shared.full, lap);
        sum += widen(reinterpret_cast<const Bf16*>(shared.box)[2 * thread_index() + 1]);
        block_barrier();
        if (thread_index() == 0) arrive_at(shared.empty, 0);
    }
    out[cluster_rank() * threads + thread_index()] = sum;
    cluster_barrier();
}

/// The barrier of the second block would count only what its own block loads.
void multicast_not_expected(Version version, const float* in, float* out) {
    ClusterShared& shared = cluster_shared();
    const TensorMap map = map_of(in);
    if (thread_index() == 0) {
        const bool expects = version == Version::right || cluster_rank() == 0;
        expects ? arrive_expect_bytes(shared.full, sizeof shared.box) : arrive(shared.full);
        if (cluster_rank() == 0) multicast_box(shared.box, map, {0, 0, 0, 0}, shared.full, 3);
    }
    wait(shared.full, 0);
    out[cluster_rank() * threads + thread_index()] =
        widen(reinterpret_cast<const Bf16*>(shared.box)[2 * thread_index() + 1]);
    cluster_barrier();
}

}  // namespace

TEST_CASE("bugs between the blocks of a cluster are found", "[emulator]") {
    check_refused(wait_of_one_block, cluster, "a wait of one block for arrivals of another");
    check_refused(ends_before_other_block_writes, cluster, "which has ended");
    check_race(reads_word_of_other_block_early, cluster);
    check_race(multicast_while_other_block_reads, cluster);
    const std::string early =
        error_of(barrier_of_other_block_used_early, Version::planted, cluster);
    CHECK((early.find("never initialised") != std::string::npos ||
           early.find("a race") != std::string::npos));
    CHECK(error_of(barrier_of_other_block_used_early, Version::right, cluster) == "");
    CHECK(error_of(multicast_not_expected, Version::right, cluster) == "");
    CHECK(error_of(multicast_not_expected, Version::planted, cluster) != "");
}

TEST_CASE("clusters need a device that has them, and all of their blocks", "[emulator]") {
    LaunchShape odd = cluster;
    odd.blocks = 3;
    CHECK(error_of(wait_of_one_block, Version::right, odd).find("3 blocks in clusters of 2") !=
          std::string::npos);
    CHECK(error_of(wait_of_one_block, Version::right, cluster, 8).find("clusters on this device") !=
          std::string::npos);
}
