#include "model/grad_buckets.h"

#include "model/ownership.h"

namespace gptrain {

GradBuckets::GradBuckets(const Parameters& parameters, Communicator& sharers, bool shard)
    : parameters_(parameters),
      sharers_(sharers),
      shard_(shard),
      started_(parameters.layout().buckets.size()) {}

void GradBuckets::start(const Bucket& bucket) {
    const Tensor& grads = parameters_.main_grads();
    const Tensor all = grads.slice(0, bucket.begin, bucket.end - bucket.begin);
    if (shard_ && shared()) {
        const Bucket own = part_of_bucket(bucket, sharers_.rank(), sharers_.size());
        pending_.push_back(
            sharers_.reduce_scatter(grads.slice(0, own.begin, own.end - own.begin), all, 0));
    } else {
        pending_.push_back(sharers_.all_reduce(all, Reduce::sum));
    }
}

void GradBuckets::ready(const Bucket& range) {
    const auto& buckets = parameters_.layout().buckets;
    for (std::size_t i = 0; i < buckets.size(); ++i) {
        if (started_[i] || buckets[i].begin < range.begin || buckets[i].end > range.end) continue;
        start(buckets[i]);
        started_[i] = true;
    }
}

void GradBuckets::finish() {
    for (std::size_t i = 0; i < started_.size(); ++i)
        GPTRAIN_CHECK(!shared() || started_[i], "bucket ", i, " was never ready");
    for (Pending& sum : pending_)
        sum.wait();
    pending_.clear();
    started_.assign(started_.size(), false);
}

}  // namespace gptrain
