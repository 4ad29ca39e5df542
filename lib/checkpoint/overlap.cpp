#include "checkpoint/overlap.h"

#include <algorithm>

namespace gptrain {
namespace {

/// Iterates over a shard's runs of elements that are consecutive in the whole tensor, in ascending
/// order.
class Runs {
public:
    explicit Runs(const Shard& shard) : shard_(shard), at_(shard.flat_begin) {
        for (int dim = shard.box.extent.rank() - 1; dim >= 0; --dim) {
            length_ *= shard.box.extent[dim];
            if (shard.box.extent[dim] != shard.global[dim]) break;
        }
        measure();
    }

    bool done() const { return at_ == shard_.flat_end; }
    std::int64_t index() const { return at_ - shard_.flat_begin; }
    std::int64_t global() const { return global_; }
    std::int64_t global_end() const { return global_ + count_; }
    /// Skips `count` elements of the run.
    void advance(std::int64_t count) {
        at_ += count;
        measure();
    }

private:
    void measure() {
        if (done()) return;
        count_ = std::min(length_ - at_ % length_, shard_.flat_end - at_);
        global_ = shard_.global_index(at_);
    }

    const Shard& shard_;
    std::int64_t at_;
    std::int64_t length_ = 1;
    std::int64_t count_ = 0;
    std::int64_t global_ = 0;
};

bool far_apart(const Shard& a, const Shard& b) {
    return a.global_index(a.flat_end - 1) < b.global_index(b.flat_begin) ||
           b.global_index(b.flat_end - 1) < a.global_index(a.flat_begin);
}

}  // namespace

bool intersect(const Box& a, const Box& b) {
    for (int dim = 0; dim < a.offset.rank(); ++dim) {
        if (a.offset[dim] + a.extent[dim] <= b.offset[dim] ||
            b.offset[dim] + b.extent[dim] <= a.offset[dim]) {
            return false;
        }
    }
    return true;
}

bool may_overlap(const Shard& a, const Shard& b) {
    if (a.elements() == 0 || b.elements() == 0) return false;
    return intersect(a.box, b.box) && !far_apart(a, b);
}

void for_each_overlap(const Shard& a, const Shard& b,
                      const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit) {
    if (!may_overlap(a, b)) return;
    if (a.box == b.box) {
        const std::int64_t begin = std::max(a.flat_begin, b.flat_begin);
        const std::int64_t end = std::min(a.flat_end, b.flat_end);
        return visit(begin - a.flat_begin, begin - b.flat_begin, end - begin);
    }
    Runs in_a(a);
    Runs in_b(b);
    while (!in_a.done() && !in_b.done()) {
        const std::int64_t begin = std::max(in_a.global(), in_b.global());
        const std::int64_t end = std::min(in_a.global_end(), in_b.global_end());
        if (begin < end) {
            in_a.advance(begin - in_a.global());
            in_b.advance(begin - in_b.global());
            visit(in_a.index(), in_b.index(), end - begin);
            in_a.advance(end - begin);
            in_b.advance(end - begin);
        } else if (in_a.global_end() <= in_b.global()) {
            in_a.advance(in_a.global_end() - in_a.global());
        } else {
            in_b.advance(in_b.global_end() - in_b.global());
        }
    }
}

}  // namespace gptrain
