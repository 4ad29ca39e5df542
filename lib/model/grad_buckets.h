// Gradients summed over the ranks that share parameters, bucket by bucket, while backward still
// runs.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "model/parameters.h"

namespace gptrain {

class GradBuckets {
public:
    /// With `shard` each rank receives the sum of its own part of every bucket (reduce-scatter),
    /// else of all of it (all-reduce). Buckets are cut into equal parts in rank order.
    GradBuckets(const Parameters& parameters, Communicator& sharers, bool shard);

    /// Whether there is anybody to sum with; alone, `ready` need not be called.
    bool shared() const { return sharers_.size() > 1; }
    /// The gradients of a flat range are final: starts the buckets that lie inside it and were not
    /// started.
    void ready(const Bucket& range);
    /// Waits for all buckets, which must all have been started, and makes ready for the next step.
    void finish();

private:
    const Parameters& parameters_;
    Communicator& sharers_;
    bool shard_;
    void start(const Bucket& bucket);

    std::vector<bool> started_;
    std::vector<Pending> pending_;
};

}  // namespace gptrain
