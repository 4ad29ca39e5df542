// Sums gradients over the ranks that share parameters, bucket by bucket, while backward still runs:
//
//   main_grad = sum over the bucket's axis (Sharing::sums) of main_grad  fp32, a flat range
//
// If gradients are divided among the owners (parallel.shard: gradients), a unit's gradients of one
// microbatch are in a window, and each owner adds the sum of its part, in the order of
// microbatches:
//
//   main_grad += sum over the axis of the window
//
// With several groups of owners (Sharing::copies) both sums are those of a group, until `finish`
// sums the parts over the groups.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "backend/backend.h"
#include "backend/memory.h"
#include "comm/mesh.h"
#include "model/parameters.h"

namespace gptrain {

/// How gradients are summed.
struct GradReduction {
    /// f32 or bf16. With bf16, ranks send gradients rounded to bf16, which halves the bytes, and
    /// each rank sums the rounded values of one part in fp32, in rank order. If ranks receive all
    /// of a bucket, its sum is sent rounded too, so that all receive the same values.
    DType dtype = DType::f32;
    /// Buckets in flight at a time, which bounds the host memory of MPI's messages; 0: any number.
    std::size_t max_in_flight = 2;
};

/// Each bucket goes over its own axis, or over that of its owners if they have copies. If all ranks
/// there own a part, it is a reduce-scatter: each receives the sum of its part, in equal parts in
/// rank order. Otherwise, and for buckets of whole parameters, it is an all-reduce.
class GradBuckets {
public:
    /// Allocates two message buffers if buckets are sent as bf16.
    GradBuckets(Backend& backend, Memory& memory, const Parameters& parameters, const Mesh& mesh,
                const GradReduction& reduction);

    /// True if other ranks share gradients; otherwise `ready` need not be called.
    bool shared() const { return shared_; }
    /// Marks the gradients of a flat range as final: starts each bucket inside it that has not
    /// started yet. If too many are in flight, it waits for the first of them; at most two buckets
    /// sent as bf16 are in flight.
    void ready(const FlatRange& range);
    /// True if gradients pass through windows: then `begin` and `end` take the place of `ready`.
    bool by_units() const { return parameters_.gathers_grads(); }
    /// Call it before the first gradient of a unit (ChunkRange) in a microbatch: its window then
    /// has zeros, but for groups that are overwritten. Does nothing between `begin` and `end`.
    void begin(std::size_t unit);
    /// Call it after the last one: starts the sum of the unit.
    void end(std::size_t unit);
    /// Until the next `finish` gradients stay on this rank: none are summed, `ready` must not be
    /// called, and `see` gets those of every bucket once they are final, on `end` or `finish`.
    void keep_local(std::function<void(const Tensor&)> see) { see_ = std::move(see); }
    bool local() const { return see_ != nullptr; }
    /// Waits for all buckets, each of which must have been started, and prepares for the next step.
    void finish();

private:
    /// A sum on its way out of a window.
    struct Leaving {
        Bucket bucket;
        Pending pending;
    };
    /// A window, and the unit whose gradients are being added up in it.
    struct Window {
        std::optional<std::size_t> unit = {};
        std::vector<Leaving> leaving = {};
    };
    /// A bf16 bucket in flight to the ranks that own its parts.
    struct Message {
        Tensor sent;      ///< has the size of the largest bucket
        Tensor received;  ///< this rank's part, from every rank
        Bucket bucket;    ///< empty: nothing in flight
        Pending pending;
    };
    Communicator& ranks_of(const Bucket& bucket) const {
        const Sharing& sharing = bucket.sharing;
        return mesh_[in_two_steps(bucket) ? *sharing.owners : sharing.sums];
    }
    /// True if the sums of groups of owners are summed over the groups at the end. Whole parameters
    /// without windows are summed over all ranks at once.
    bool in_two_steps(const Bucket& bucket) const {
        return bucket.sharing.copies && (by_units() || !bucket.whole);
    }
    FlatRange own_part(const Bucket& bucket) const;
    bool rounded() const { return shared() && reduction_.dtype != DType::f32; }
    /// Collects what the windows and the sums over copies need.
    void set_units();
    /// Starts a new step with all buckets waiting.
    void start_step();
    void finish_local();
    bool scatters(const Bucket& bucket) const {
        const bool all = bucket.sharing.owners == bucket.sharing.sums;
        return (all || in_two_steps(bucket)) && !bucket.whole;
    }
    /// Where a bucket's sum arrives, of which this rank owns a part: in its window, or at once in
    /// the gradients that the rank owns.
    Tensor sum_place(const FlatRange& own) const {
        return by_units() ? parameters_.grads(own) : parameters_.owned_grads(own);
    }
    /// The ranges of a bucket that this rank owns.
    std::vector<FlatRange> own_ranges(const Bucket& bucket) const;
    void start(const Bucket& bucket);
    void start_in_window(const Bucket& bucket, Window& window);
    /// Waits until a window is free, and adds what its sums have left there.
    void free_window(Window& window);
    /// Adds the sum of a bucket, which is in its window, to the gradients that this rank owns.
    void add_sum(const Bucket& bucket);
    Window* window_of(std::size_t unit);
    void finish_step_of_units();
    void sum_over_copies();
    void start_rounded(const Bucket& bucket);
    void complete(Message& message);

    Backend& backend_;
    const Parameters& parameters_;
    const Mesh& mesh_;
    GradReduction reduction_;
    bool shared_ = false;
    std::function<void(const Tensor&)> see_;  ///< empty unless gradients stay on this rank
    std::set<std::size_t> waiting_;           ///< buckets not yet started in this step
    std::deque<Pending> pending_;
    std::array<Message, 2> messages_;
    std::size_t next_message_ = 0;
    std::vector<Window> windows_;
    std::vector<std::vector<Bucket>> buckets_of_unit_;
    std::vector<std::vector<Tensor>> cleared_;  ///< of each unit, before each microbatch
    std::vector<Tensor> copied_;                ///< the owned parts that are summed over copies
    std::vector<Communicator*> copies_;         ///< the ranks over which, one for each of them
};

}  // namespace gptrain
