// Gradients summed over the ranks that share parameters, bucket by bucket, while backward still
// runs.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "backend/backend.h"
#include "backend/memory.h"
#include "comm/communicator.h"
#include "model/parameters.h"

namespace gptrain {

/// How the sums are made.
struct GradReduction {
    /// Each rank receives the sum of its own part of every bucket (reduce-scatter), else of all of
    /// it (all-reduce). Buckets are cut into equal parts in rank order.
    bool shard = false;
    /// f32, or bf16: ranks send their gradients rounded to bf16, which is half the bytes, and the
    /// rank whose part it is adds them in fp32, in the order of ranks. Without `shard` that sum
    /// goes around rounded as well, so that all ranks get the same.
    DType dtype = DType::f32;
};

class GradBuckets {
public:
    /// Takes memory for two buckets under way where they go as bf16.
    GradBuckets(Backend& backend, Memory& memory, const Parameters& parameters,
                Communicator& sharers, const GradReduction& how);

    /// Whether there is anybody to sum with; alone, `ready` need not be called.
    bool shared() const { return sharers_.size() > 1; }
    /// The gradients of a flat range are final: starts the buckets that lie inside it and were not
    /// started. No more than two are under way, so that messages need little memory: the third
    /// waits for the first.
    void ready(const Bucket& range);
    /// Waits for all buckets, which must all have been started, and makes ready for the next step.
    void finish();

private:
    static constexpr std::size_t most_under_way = 2;
    /// A bucket as bf16 on its way to the ranks whose parts it has.
    struct Message {
        Tensor sent;      ///< of the largest bucket
        Tensor received;  ///< the same part from every rank
        Bucket bucket;    ///< empty: none is under way
        Pending pending;
    };
    Tensor grads_of(const Bucket& bucket) const;
    Bucket own_part(const Bucket& bucket) const;
    bool rounded() const { return shared() && how_.dtype != DType::f32; }
    /// A new step: no bucket was started.
    void expect_all();
    void start(const Bucket& bucket);
    void start_rounded(const Bucket& bucket);
    void complete(Message& message);

    Backend& backend_;
    const Parameters& parameters_;
    Communicator& sharers_;
    GradReduction how_;
    std::set<std::size_t> waiting_;  ///< buckets that were not started in this step
    std::deque<Pending> pending_;
    std::array<Message, most_under_way> messages_;
    std::size_t next_message_ = 0;
};

}  // namespace gptrain
