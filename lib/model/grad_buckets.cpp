#include "model/grad_buckets.h"

#include <algorithm>

#include "model/ownership.h"

namespace gptrain {

GradBuckets::GradBuckets(Backend& backend, Memory& memory, const Parameters& parameters,
                         const Mesh& mesh, const GradReduction& reduction)
    : backend_(backend), parameters_(parameters), mesh_(mesh), reduction_(reduction) {
    const auto& all = parameters.layout().parameters;
    shared_ = std::any_of(all.begin(), all.end(), [&](const Parameter& each) {
        return mesh[each.sharing.sums].size() > 1;
    });
    start_step();
    if (!rounded()) return;
    std::int64_t largest = 0;
    for (const Bucket& bucket : parameters.layout().buckets)
        largest = std::max(largest, bucket.elements());
    for (Message& message : messages_) {
        message.sent = memory[MemoryUse::grad_messages].allocate(reduction.dtype, {largest});
        message.received = memory[MemoryUse::grad_messages].allocate(reduction.dtype, {largest});
    }
}

FlatRange GradBuckets::own_part(const Bucket& bucket) const {
    return part_of_bucket(bucket, ranks_of(bucket).rank(), ranks_of(bucket).size());
}

void GradBuckets::start(const Bucket& bucket) {
    Communicator& ranks = ranks_of(bucket);
    if (ranks.size() == 1) return;
    const Tensor all = parameters_.grads(bucket);
    if (rounded()) {
        start_rounded(bucket);
        return;
    }
    if (reduction_.max_in_flight > 0 && pending_.size() == reduction_.max_in_flight) {
        pending_.front().wait();
        pending_.pop_front();
    }
    if (scatters(bucket)) {
        pending_.push_back(ranks.reduce_scatter(parameters_.owned_grads(own_part(bucket)), all, 0));
    } else {
        pending_.push_back(ranks.all_reduce(all, Reduce::sum));
    }
}

void GradBuckets::start_rounded(const Bucket& bucket) {
    Message& message = messages_[next_message_];
    next_message_ = (next_message_ + 1) % messages_.size();
    complete(message);
    const std::int64_t elements = bucket.elements();
    const Tensor sent = message.sent.slice(0, 0, elements);
    backend_.run(Cast{.to = sent, .from = parameters_.grads(bucket)});
    message.bucket = bucket;
    message.pending = ranks_of(bucket).all_to_all(message.received.slice(0, 0, elements), sent);
}

void GradBuckets::complete(Message& message) {
    const std::int64_t elements = message.bucket.elements();
    if (elements == 0) return;
    message.pending.wait();
    Communicator& ranks = ranks_of(message.bucket);
    const FlatRange own = own_part(message.bucket);
    const bool scattered = scatters(message.bucket);
    const Tensor sum = scattered ? parameters_.owned_grads(own) : parameters_.grads(own);
    backend_.run(SumRows{
        .to = sum,
        .rows =
            message.received.slice(0, 0, elements).view({ranks.size(), elements / ranks.size()})});
    if (!scattered) {
        const Tensor all = message.sent.slice(0, 0, elements);
        const Tensor part = all.slice(0, own.begin - message.bucket.begin, own.elements());
        backend_.run(Cast{.to = part, .from = sum});
        ranks.all_gather(all, part, 0).wait();
        backend_.run(Cast{.to = parameters_.grads(message.bucket), .from = all});
    }
    message.bucket = {};
}

void GradBuckets::start_step() {
    for (std::size_t i = 0; i < parameters_.layout().buckets.size(); ++i)
        waiting_.insert(waiting_.end(), i);
}

void GradBuckets::ready(const FlatRange& range) {
    const auto& buckets = parameters_.layout().buckets;
    const auto begins_before = [](const Bucket& bucket, std::int64_t position) {
        return bucket.begin < position;
    };
    const auto first = std::lower_bound(buckets.begin(), buckets.end(), range.begin, begins_before);
    auto next = waiting_.lower_bound(static_cast<std::size_t>(first - buckets.begin()));
    while (next != waiting_.end() && buckets[*next].end <= range.end) {
        start(buckets[*next]);
        next = waiting_.erase(next);
    }
}

void GradBuckets::finish() {
    GPTRAIN_CHECK(!shared() || waiting_.empty(), "bucket ", *waiting_.begin(), " was never ready");
    for (Pending& sum : pending_)
        sum.wait();
    pending_.clear();
    // The older one first, so that all ranks issue them in the same order.
    for (std::size_t i = 0; i < messages_.size(); ++i)
        complete(messages_[(next_message_ + i) % messages_.size()]);
    start_step();
}

}  // namespace gptrain
