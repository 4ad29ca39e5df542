// Sums gradients over the ranks that share parameters, bucket by bucket, while backward still runs:
//
//   main_grad = sum over dp x cp of main_grad  fp32, a flat range
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <set>

#include "backend/backend.h"
#include "backend/memory.h"
#include "comm/communicator.h"
#include "model/parameters.h"

namespace gptrain {

/// How gradients are summed.
struct GradReduction {
    /// True: reduce-scatter; each rank receives the sum of its own part of every bucket, in equal
    /// parts in rank order. False, and for buckets of whole parameters: all-reduce; it receives all
    /// of it.
    bool shard = false;
    /// f32 or bf16. With bf16, ranks send gradients rounded to bf16, half the bytes, and the rank
    /// that owns a part adds up the rounded values in fp32, in rank order. Without `shard` the sum
    /// is sent rounded too, so that all ranks receive the same values.
    DType dtype = DType::f32;
    /// Buckets in flight at a time, which bounds the host memory of MPI's messages; 0: any number.
    std::size_t max_in_flight = 2;
};

class GradBuckets {
public:
    /// Allocates two message buffers if buckets are sent as bf16.
    GradBuckets(Backend& backend, Memory& memory, const Parameters& parameters, Communicator& dp_cp,
                const GradReduction& reduction);

    /// True if other ranks share the gradients; otherwise `ready` need not be called.
    bool shared() const { return dp_cp_.size() > 1; }
    /// Marks the gradients of a flat range as final: starts each bucket inside it that has not
    /// started yet. If too many are in flight, it waits for the first of them. Of those sent as
    /// bf16 two are in flight at most.
    void ready(const FlatRange& range);
    /// Waits for all buckets, each of which must have been started, and prepares for the next step.
    void finish();

private:
    /// A bf16 bucket in flight to the ranks that own its parts.
    struct Message {
        Tensor sent;      ///< has the size of the largest bucket
        Tensor received;  ///< this rank's part, from every rank
        Bucket bucket;    ///< empty: nothing in flight
        Pending pending;
    };
    Tensor grads_of(const FlatRange& bucket) const;
    FlatRange own_part(const FlatRange& bucket) const;
    bool rounded() const { return shared() && reduction_.dtype != DType::f32; }
    /// Starts a new step with all buckets waiting.
    void start_step();
    bool scatters(const Bucket& bucket) const { return reduction_.shard && !bucket.whole; }
    void start(const Bucket& bucket);
    void start_rounded(const Bucket& bucket);
    void complete(Message& message);

    Backend& backend_;
    const Parameters& parameters_;
    Communicator& dp_cp_;
    GradReduction reduction_;
    std::set<std::size_t> waiting_;  ///< buckets not yet started in this step
    std::deque<Pending> pending_;
    std::array<Message, 2> messages_;
    std::size_t next_message_ = 0;
};

}  // namespace gptrain
