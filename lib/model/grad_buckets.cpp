#include "model/grad_buckets.h"

#include "model/ownership.h"

namespace gptrain {

GradBuckets::GradBuckets(const Parameters& parameters, Communicator& sharers, bool shard)
    : parameters_(parameters), sharers_(sharers), shard_(shard) {}

void GradBuckets::ready_to(std::int64_t end) {
    const auto& buckets = parameters_.layout().buckets;
    const Tensor& grads = parameters_.main_grads();
    for (; started_ < buckets.size() && buckets[started_].end <= end; ++started_) {
        const Bucket& bucket = buckets[started_];
        const Tensor all = grads.slice(0, bucket.begin, bucket.end - bucket.begin);
        if (shard_ && shared()) {
            const Bucket own = part_of_bucket(bucket, sharers_.rank(), sharers_.size());
            pending_.push_back(
                sharers_.reduce_scatter(grads.slice(0, own.begin, own.end - own.begin), all, 0));
        } else {
            pending_.push_back(sharers_.all_reduce(all, Reduce::sum));
        }
    }
}

void GradBuckets::finish() {
    GPTRAIN_CHECK(!shared() || started_ == parameters_.layout().buckets.size(), "bucket ", started_,
                  " was never ready");
    for (Pending& sum : pending_)
        sum.wait();
    pending_.clear();
    started_ = 0;
}

}  // namespace gptrain
