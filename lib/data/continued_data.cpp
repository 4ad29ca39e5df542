#include "data/continued_data.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"

namespace gptrain {
namespace {

/// Samples that each source gives among the first `samples` of an endless blend.
std::vector<std::int64_t> samples_given(const BlendOrder& order, std::int64_t samples) {
    std::vector<std::int64_t> given;
    for (const std::int64_t count : order.counts())
        given.push_back(checked_mul(samples / order.size(), count));
    const auto rest = static_cast<std::size_t>(samples % order.size());
    for (const std::int16_t source : order.sources().first(rest))
        ++given[static_cast<std::size_t>(source)];
    return given;
}

/// Data that has never changed: every pass has orders of its own.
std::vector<SourceProgress> progress_in_pass(const SavedData& saved,
                                             const std::filesystem::path& cache_folder) {
    const std::int64_t samples = saved.num_samples;
    const std::int64_t pass = saved.consumed_samples / samples;
    const std::int64_t given = saved.consumed_samples % samples;
    if (saved.weights.size() == 1) return {{saved.fingerprints[0], pass, samples, samples, given}};
    const Blend blend = plan_blend(saved.weights, samples);
    const BlendOrder order(blend, cache_folder);
    const std::vector<std::int64_t> by_source = samples_given(order, given);
    std::vector<SourceProgress> progress;
    for (std::size_t i = 0; i < saved.weights.size(); ++i) {
        progress.push_back(
            {saved.fingerprints[i], pass, blend.requests[i], order.counts()[i], by_source[i]});
    }
    return progress;
}

/// Data that has changed before: every source has a stream of its own.
std::vector<SourceProgress> progress_in_phase(const SavedData& saved,
                                              const std::filesystem::path& cache_folder) {
    std::vector<SourceProgress> progress = saved.phase->sources;
    const std::int64_t samples = saved.consumed_samples - saved.phase->first_sample;
    std::vector<std::int64_t> given = {samples};
    if (saved.weights.size() > 1) {
        const Blend blend = plan_blend(saved.weights, saved.num_samples);
        given = samples_given(BlendOrder(blend, cache_folder), samples);
    }
    for (std::size_t i = 0; i < given.size(); ++i)
        progress[i].given = checked_add(progress[i].given, given[i]);
    return progress;
}

}  // namespace

DataPhase change_data(const SavedData& saved, const std::vector<NewSource>& sources,
                      const std::filesystem::path& cache_folder) {
    std::vector<SourceProgress> before = saved.phase ? progress_in_phase(saved, cache_folder)
                                                     : progress_in_pass(saved, cache_folder);
    DataPhase phase = {.first_sample = saved.consumed_samples, .sources = {}};
    for (const NewSource& source : sources) {
        const auto known =
            std::find_if(before.begin(), before.end(), [&](const SourceProgress& progress) {
                return progress.fingerprint == source.fingerprint;
            });
        if (known == before.end()) {
            phase.sources.push_back(
                {source.fingerprint, 0, source.epoch_samples, source.epoch_samples, 0});
        } else {
            phase.sources.push_back(*known);
            before.erase(known);
        }
    }
    phase.sources.insert(phase.sources.end(), before.begin(), before.end());
    return phase;
}

SourceStream::SourceStream(OpenOrder open, SourceProgress from, std::int64_t first_samples,
                           std::int64_t epoch_samples, std::string name)
    : open_(std::move(open)),
      from_(std::move(from)),
      first_samples_(first_samples),
      epoch_samples_(epoch_samples),
      name_(std::move(name)) {
    GPTRAIN_CHECK(first_samples_ > 0 && epoch_samples_ > 0 && from_.given >= 0);
    find(0);
}

SourceStream::Place SourceStream::find(std::int64_t index) const {
    const std::int64_t given = checked_add(from_.given, index);
    const std::int64_t after_first = given - first_samples_;
    const std::int64_t number = after_first < 0 ? 0 : 1 + after_first / epoch_samples_;
    const std::lock_guard lock(mutex_);
    if (number != order_number_) {
        if (order_) {
            print("data: pass ", from_.pass + number + 1, " over ", name_, " starts (reshuffled)");
        }
        const bool first = number == 0;
        order_ = open_(from_.pass + number, first ? from_.num_samples : epoch_samples_);
        if (first && order_->size() < from_.needed) order_ = open_(from_.pass, from_.needed);
        order_number_ = number;
    }
    return {order_, number == 0 ? given : after_first % epoch_samples_};
}

std::int64_t SourceStream::sample(std::int64_t index, std::span<std::int32_t> tokens) const {
    const Place place = find(index);
    return place.order->sample(place.index, tokens);
}

std::string SourceStream::place_of(std::int64_t index, std::int64_t offset) const {
    const Place place = find(index);
    return place.order->place_of(place.index, offset);
}

ContinuedDataset::ContinuedDataset(std::int64_t first_sample,
                                   std::vector<std::unique_ptr<SourceStream>> streams,
                                   const std::vector<double>& weights, std::int64_t num_samples,
                                   const std::filesystem::path& cache_folder)
    : first_sample_(first_sample), streams_(std::move(streams)) {
    GPTRAIN_CHECK(streams_.size() == weights.size() && !streams_.empty());
    if (streams_.size() > 1) order_.emplace(plan_blend(weights, num_samples), cache_folder);
}

std::int64_t ContinuedDataset::size() const {
    return std::numeric_limits<std::int64_t>::max();
}

ContinuedDataset::Place ContinuedDataset::find(std::int64_t index) const {
    GPTRAIN_CHECK(index >= first_sample_, index, " before ", first_sample_);
    const std::int64_t sample = index - first_sample_;
    if (!order_) return {*streams_[0], sample};
    const auto at = static_cast<std::size_t>(sample % order_->size());
    const auto source = static_cast<std::size_t>(order_->sources()[at]);
    const std::int64_t rounds = sample / order_->size();
    return {*streams_[source],
            checked_mul(rounds, order_->counts()[source]) + order_->samples()[at]};
}

std::int64_t ContinuedDataset::sample(std::int64_t index, std::span<std::int32_t> tokens) const {
    const Place place = find(index);
    return place.stream.sample(place.index, tokens);
}

std::string ContinuedDataset::place_of(std::int64_t index, std::int64_t offset) const {
    const Place place = find(index);
    return place.stream.place_of(place.index, offset);
}

}  // namespace gptrain
