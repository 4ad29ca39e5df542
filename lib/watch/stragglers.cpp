#include "watch/stragglers.h"

#include <algorithm>
#include <string>

#include "base/log.h"
#include "base/process.h"

namespace gptrain {
namespace {

/// The median; of an even number of values, the lower of the middle two.
double lower_median(std::vector<double> values) {
    const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

void RunningMedian::add(double value) {
    if (last_.size() < window) {
        last_.push_back(value);
    } else {
        last_[next_] = value;
        next_ = (next_ + 1) % window;
    }
}

std::optional<double> RunningMedian::value() const {
    if (last_.size() < window) return std::nullopt;
    return lower_median(last_);
}

std::vector<Straggler> find_stragglers(std::span<const double> seconds, const MeshShape& mesh) {
    constexpr double slow = 1.2;
    std::map<int, std::vector<double>> by_stage;
    for (std::int64_t rank = 0; rank < std::ssize(seconds); ++rank)
        by_stage[place_of(rank, mesh).pp].push_back(seconds[static_cast<std::size_t>(rank)]);
    std::map<int, double> middle;
    for (const auto& [stage, stage_seconds] : by_stage)
        middle[stage] = lower_median(stage_seconds);
    std::vector<Straggler> found;
    for (std::int64_t rank = 0; rank < std::ssize(seconds); ++rank) {
        const double own = seconds[static_cast<std::size_t>(rank)];
        const double others = middle[place_of(rank, mesh).pp];
        if (own > slow * others) found.push_back({static_cast<int>(rank), own, others});
    }
    return found;
}

void StragglerWatch::begin_step() {
    began_ = Clock::now();
    waited_ = {};
}

void StragglerWatch::end_step() {
    const std::chrono::duration<double> own = Clock::now() - began_ - waited_;
    own_seconds_.add(own.count());
}

void StragglerWatch::on_waiting(const CommCall& /*call*/) {
    waits_since_ = Clock::now();
}

void StragglerWatch::on_finished(const CommCall& /*call*/) {
    waited_ += Clock::now() - waits_since_;
}

void StragglerWatch::report(std::int64_t step, const MpiSession& ranks, const MeshShape& mesh) {
    constexpr std::int64_t steps_between = 10;
    const auto own = own_seconds_.value();
    if (ranks.size() == 1 || !own || step < reported_ + steps_between) return;
    reported_ = step;
    const std::vector<std::string> replies = ranks.exchange(text(*own, ' ', host_name()));
    if (ranks.rank() != 0) return;
    std::vector<double> seconds;
    for (const std::string& reply : replies)
        seconds.push_back(parse_double(reply.substr(0, reply.find(' '))).value_or(0));
    for (const Straggler& slow : find_stragglers(seconds, mesh)) {
        const auto last = warned_.find(slow.rank);
        if (last != warned_.end() && step < last->second + std::int64_t{RunningMedian::window})
            continue;
        warned_[slow.rank] = step;
        const std::string& reply = replies[static_cast<std::size_t>(slow.rank)];
        warn("step ", step, ": rank ", slow.rank, " (", to_text(place_of(slow.rank, mesh)), ") on ",
             reply.substr(reply.find(' ') + 1), " is slow: ", fixed(slow.seconds, 4),
             " s of own work per step; the median of its stage is ", fixed(slow.others, 4), " s");
    }
}

}  // namespace gptrain
