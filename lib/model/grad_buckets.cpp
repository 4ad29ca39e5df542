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
    set_units();
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

void GradBuckets::set_units() {
    const ParameterLayout& layout = parameters_.layout();
    for (const Bucket& bucket : layout.buckets) {
        if (!in_two_steps(bucket)) continue;
        for (const FlatRange& own : own_ranges(bucket)) {
            copied_.push_back(parameters_.owned_grads(own));
            copies_.push_back(&mesh_[*bucket.sharing.copies]);
        }
    }
    if (!by_units()) return;
    const UnitWindows& windows = parameters_.placement().grad_windows;
    windows_.resize(static_cast<std::size_t>(windows.count));
    buckets_of_unit_.resize(windows.of_unit.size());
    cleared_.resize(windows.of_unit.size());
    const std::vector<FlatRange> cleared = cleared_ranges(layout);
    for (const Bucket& bucket : layout.buckets) {
        buckets_of_unit_[bucket.unit].push_back(bucket);
        for (const FlatRange& range : cleared) {
            const FlatRange part = {std::max(range.begin, bucket.begin),
                                    std::min(range.end, bucket.end)};
            if (part.begin < part.end) cleared_[bucket.unit].push_back(parameters_.grads(part));
        }
    }
}

std::vector<FlatRange> GradBuckets::own_ranges(const Bucket& bucket) const {
    const Owner owner = owner_of(bucket.sharing, mesh_);
    if (bucket.whole) return whole_runs(parameters_.layout(), bucket, owner.rank);
    return {part_of_bucket(bucket, owner.rank, owner.ranks)};
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
        pending_.push_back(ranks.reduce_scatter(sum_place(own_part(bucket)), all, 0));
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
    const Tensor sum = scattered ? sum_place(own) : parameters_.grads(own);
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
    if (by_units()) add_sum(message.bucket);
    message.bucket = {};
}

GradBuckets::Window* GradBuckets::window_of(std::size_t unit) {
    const std::optional<int> index = parameters_.placement().grad_windows.of_unit[unit];
    return index ? &windows_[static_cast<std::size_t>(*index)] : nullptr;
}

void GradBuckets::begin(std::size_t unit) {
    Window* const window = window_of(unit);
    if (window == nullptr || window->unit == unit) return;
    GPTRAIN_CHECK(!window->unit, "the window of unit ", unit, " has gradients of ", *window->unit);
    free_window(*window);
    if (!cleared_[unit].empty()) backend_.run(Clear{.values = cleared_[unit]});
    window->unit = unit;
}

void GradBuckets::end(std::size_t unit) {
    Window* const window = window_of(unit);
    if (window == nullptr) return;
    GPTRAIN_CHECK(window->unit == unit, "unit ", unit, " has no gradients");
    for (const Bucket& bucket : buckets_of_unit_[unit]) {
        if (local()) {
            see_(parameters_.grads(bucket));
        } else {
            start_in_window(bucket, *window);
        }
    }
    window->unit.reset();
}

void GradBuckets::start_in_window(const Bucket& bucket, Window& window) {
    Communicator& ranks = ranks_of(bucket);
    if (ranks.size() == 1) return add_sum(bucket);
    if (rounded()) return start_rounded(bucket);
    const Tensor all = parameters_.grads(bucket);
    window.leaving.push_back(
        {bucket, scatters(bucket)
                     ? ranks.reduce_scatter(parameters_.grads(own_part(bucket)), all, 0)
                     : ranks.all_reduce(all, Reduce::sum)});
}

void GradBuckets::free_window(Window& window) {
    for (Leaving& leaving : window.leaving) {
        leaving.pending.wait();
        add_sum(leaving.bucket);
    }
    window.leaving.clear();
    // The older one first, so that all ranks issue what follows in the same order.
    for (std::size_t i = 0; i < messages_.size(); ++i) {
        Message& message = messages_[(next_message_ + i) % messages_.size()];
        if (message.bucket.elements() > 0 && window_of(message.bucket.unit) == &window)
            complete(message);
    }
}

void GradBuckets::add_sum(const Bucket& bucket) {
    for (const FlatRange& own : own_ranges(bucket))
        backend_.run(Add{.x = parameters_.owned_grads(own), .y = parameters_.grads(own)});
}

void GradBuckets::finish_step_of_units() {
    for (Window& window : windows_) {
        GPTRAIN_CHECK(!window.unit, "gradients of unit ", *window.unit, " were never summed");
        free_window(window);
    }
    sum_over_copies();
}

void GradBuckets::sum_over_copies() {
    std::vector<Pending> sums;
    for (std::size_t i = 0; i < copied_.size(); ++i)
        sums.push_back(copies_[i]->all_reduce(copied_[i], Reduce::sum));
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

void GradBuckets::finish_local() {
    if (!by_units()) {
        for (const Bucket& bucket : parameters_.layout().buckets)
            see_(parameters_.grads(bucket));
    }
    see_ = nullptr;
}

void GradBuckets::finish() {
    if (local()) return finish_local();
    if (by_units()) return finish_step_of_units();
    GPTRAIN_CHECK(!shared() || waiting_.empty(), "bucket ", *waiting_.begin(), " was never ready");
    for (Pending& sum : pending_)
        sum.wait();
    pending_.clear();
    // The older one first, so that all ranks issue them in the same order.
    for (std::size_t i = 0; i < messages_.size(); ++i)
        complete(messages_[(next_message_ + i) % messages_.size()]);
    sum_over_copies();
    start_step();
}

}  // namespace gptrain
