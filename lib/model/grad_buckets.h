// Sums gradients over the ranks that share parameters, bucket by bucket, while backward still runs:
//
//   main_grad = sum over the bucket's axis (Sharing::sums) of main_grad  fp32, a flat range
#pragma once

#include <array>
#include <deque>
#include <set>

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

/// Each bucket goes over its own axis. If all ranks there own a part, it is a reduce-scatter: each
/// receives the sum of its part, in equal parts in rank order. Otherwise, and for buckets of whole
/// parameters, it is an all-reduce.
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
    Communicator& ranks_of(const Bucket& bucket) const { return mesh_[bucket.sharing.sums]; }
    FlatRange own_part(const Bucket& bucket) const;
    bool rounded() const { return shared() && reduction_.dtype != DType::f32; }
    /// Starts a new step with all buckets waiting.
    void start_step();
    static bool scatters(const Bucket& bucket) {
        return bucket.sharing.owners == bucket.sharing.sums && !bucket.whole;
    }
    void start(const Bucket& bucket);
    void start_rounded(const Bucket& bucket);
    void complete(Message& message);

    Backend& backend_;
    const Parameters& parameters_;
    const Mesh& mesh_;
    GradReduction reduction_;
    bool shared_ = false;
    std::set<std::size_t> waiting_;  ///< buckets not yet started in this step
    std::deque<Pending> pending_;
    std::array<Message, 2> messages_;
    std::size_t next_message_ = 0;
};

}  // namespace gptrain
