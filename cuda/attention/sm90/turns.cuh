// The turns in which tiles of keys add to a block of dq in backward attention on sm_90a.
#pragma once

#include "cuda/attention/sm90/shared.cuh"

namespace gptrain::cuda::sm90 {

/// One computing group's sums of dq of a tile of queries, and the turn of a tile of keys at them.
class DqTurn {
public:
    __device__ DqTurn(const BackwardWork& work, const KeyTile& keys, const QueryStep& step,
                      int rows, int group) {
        const AttentionParams& p = work.p;
        const int pair = keys.sequence * p.groups + keys.group;
        const int tile = step.head % p.heads_per_group() * work.query_tiles + step.query / rows;
        const std::int64_t block =
            std::int64_t{pair % work.slots} * work.slot_blocks + tile * computing_groups + group;
        sums_ = work.sums + block * dq_block_size;
        turn_ = work.turns + block;
        begin_ = static_cast<unsigned>(pair / work.slots) * turns_of_owner;
        number_ = static_cast<unsigned>(step.turn);
    }

    __device__ float* sums() const { return sums_; }
    /// Waits for the turn. The sums of earlier tiles of keys are visible afterwards.
    __device__ void begin() const {
        while (load_acquire(turn_) != begin_ + number_)
            spin_pause();
    }
    /// The next tile of keys may add.
    __device__ void end() const { store_release(turn_, begin_ + number_ + 1); }
    /// The next owner may store.
    __device__ void end_all() const { store_release(turn_, begin_ + turns_of_owner); }

private:
    float* sums_;
    unsigned* turn_;
    unsigned begin_;
    unsigned number_;
};

}  // namespace gptrain::cuda::sm90
