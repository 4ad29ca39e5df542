#include "watch/stragglers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
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

double RunningMedian::sum() const {
    return std::accumulate(last_.begin(), last_.end(), 0.0);
}

std::vector<Straggler> find_stragglers(std::span<const RankWork> works, const MeshShape& mesh) {
    constexpr double slow = 1.2;
    using Work = std::pair<int, std::int64_t>;  // stage, microbatches
    const auto work_of = [&](std::int64_t rank) -> Work {
        return {place_of(rank, mesh).pp, works[static_cast<std::size_t>(rank)].microbatches};
    };
    std::map<Work, std::vector<double>> by_work;
    for (std::int64_t rank = 0; rank < std::ssize(works); ++rank)
        by_work[work_of(rank)].push_back(works[static_cast<std::size_t>(rank)].seconds);
    std::map<Work, double> middle;
    for (const auto& [work, seconds] : by_work)
        middle[work] = lower_median(seconds);
    std::vector<Straggler> found;
    for (std::int64_t rank = 0; rank < std::ssize(works); ++rank) {
        const double own = works[static_cast<std::size_t>(rank)].seconds;
        const double others = middle[work_of(rank)];
        if (own > slow * others) found.push_back({static_cast<int>(rank), own, others});
    }
    return found;
}

void StragglerWatch::begin_step(std::int64_t microbatches) {
    microbatches_.add(static_cast<double>(microbatches));
    if (timer_ != nullptr) return timer_->begin_step();
    began_ = Clock::now();
    waited_ = {};
}

void StragglerWatch::end_step() {
    if (timer_ != nullptr) return timer_->end_step();
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
    if (timer_ != nullptr) {
        for (const double seconds : timer_->take_steps())
            own_seconds_.add(seconds);
    }
    const auto own = own_seconds_.value();
    if (ranks.size() == 1 || !own || step < reported_ + steps_between) return;
    reported_ = step;
    const std::vector<std::string> replies =
        ranks.exchange(text(*own, ' ', std::llround(microbatches_.sum()), ' ', host_name()));
    if (ranks.rank() != 0) return;
    std::vector<RankWork> works;
    std::vector<std::string> hosts;
    for (const std::string& reply : replies) {
        std::istringstream words(reply);
        std::string seconds;
        std::string microbatches;
        words >> seconds >> microbatches >> hosts.emplace_back();
        works.push_back({parse_double(seconds).value_or(0), parse_int(microbatches).value_or(0)});
    }
    for (const Straggler& slow : find_stragglers(works, mesh)) {
        const auto last = warned_.find(slow.rank);
        if (last != warned_.end() && step < last->second + std::int64_t{RunningMedian::window})
            continue;
        warned_[slow.rank] = step;
        warn("step ", step, ": rank ", slow.rank, " (", to_text(place_of(slow.rank, mesh)), ") on ",
             hosts[static_cast<std::size_t>(slow.rank)], " is slow: ", fixed(slow.seconds, 4),
             " s of own work per step; the median of ranks with the same work is ",
             fixed(slow.others, 4), " s");
    }
}

}  // namespace gptrain
