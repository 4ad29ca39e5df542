#include "data/continued_data.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "data/endless_dataset.h"

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

/// Data that has never changed: each pass has its own orders.
std::vector<SourceProgress> progress_in_pass(const SavedData& saved, const IndexCache& cache) {
    const std::int64_t samples = saved.num_samples;
    const std::int64_t pass = saved.consumed_samples / samples;
    const std::int64_t given = saved.consumed_samples % samples;
    if (saved.weights.size() == 1) {
        return {{saved.fingerprints[0], pass, samples, samples, given, saved.seq_length, {}}};
    }
    const Blend blend = plan_blend(saved.weights, samples);
    const BlendOrder order(blend, cache);
    const std::vector<std::int64_t> by_source = samples_given(order, given);
    std::vector<SourceProgress> progress;
    for (std::size_t i = 0; i < saved.weights.size(); ++i) {
        progress.push_back({saved.fingerprints[i],
                            pass,
                            blend.requests[i],
                            order.counts()[i],
                            by_source[i],
                            saved.seq_length,
                            {}});
    }
    return progress;
}

/// Data that has changed before: each source has its own stream.
std::vector<SourceProgress> progress_in_phase(const SavedData& saved, const IndexCache& cache) {
    std::vector<SourceProgress> progress = saved.phase->sources;
    const std::int64_t samples = saved.consumed_samples - saved.phase->first_sample;
    std::vector<std::int64_t> given = {samples};
    if (saved.weights.size() > 1) {
        const Blend blend = plan_blend(saved.weights, saved.num_samples);
        given = samples_given(BlendOrder(blend, cache), samples);
    }
    for (std::size_t i = 0; i < given.size(); ++i)
        progress[i].given = checked_add(progress[i].given, given[i]);
    return progress;
}

SourceProgress start_of(const NewSource& source, std::int64_t pass, std::int64_t seq_length) {
    const std::int64_t samples = epoch_samples(source.tokens, seq_length);
    return {source.fingerprint, pass, samples, samples, 0, seq_length, {}};
}

/// The same progress in samples of another length.
SourceProgress with_length(SourceProgress progress, const NewSource& source,
                           std::int64_t seq_length) {
    if (progress.seq_length == seq_length) return progress;
    const std::int64_t later = progress.given - first_samples(progress, source.tokens);
    if (later >= 0) {
        const std::int64_t epoch = epoch_samples(source.tokens, progress.seq_length);
        progress = start_of(source, progress.pass + 1 + later / epoch, progress.seq_length);
        progress.given = later % epoch;
    }
    const bool unread = progress.given == 0 && progress.changes.empty();
    if (unread) return start_of(source, progress.pass, seq_length);
    progress.changes.push_back({progress.seq_length, progress.given});
    progress.seq_length = seq_length;
    progress.given = 0;
    return progress;
}

}  // namespace

OrderOptions first_order(const SourceProgress& progress, std::int64_t tokens, std::uint64_t seed) {
    OrderOptions order = {.seed = seed + static_cast<std::uint64_t>(progress.pass),
                          .seq_length = progress.changes.empty()
                                            ? progress.seq_length
                                            : progress.changes.front().seq_length,
                          .num_samples = progress.num_samples};
    if (samples_in_order(tokens, order) < progress.needed) order.num_samples = progress.needed;
    return order;
}

std::vector<Cut> cuts_of(const SourceProgress& progress, std::int64_t tokens) {
    const OrderOptions order = first_order(progress, tokens, 0);
    std::int64_t samples = samples_in_order(tokens, order);
    std::vector<Cut> cuts;
    for (std::size_t i = 0; i < progress.changes.size(); ++i) {
        const LengthChange& change = progress.changes[i];
        if (change.given > samples) {
            fail(ExitCode::bad_input, "identity.data.phase of the checkpoint: source ",
                 progress.fingerprint, " has given ", change.given, " samples of ", samples);
        }
        Cut cut = {.left = {change.given, samples}};
        const std::int64_t before_last = samples_before_last_epoch(tokens, order);
        if (i == 0 && change.given < before_last) cut.left.end = before_last;
        const bool last = i + 1 == progress.changes.size();
        cut.seq_length = last ? progress.seq_length : progress.changes[i + 1].seq_length;
        cut.samples = samples =
            recut_samples(cut.left.end - cut.left.begin, change.seq_length, cut.seq_length);
        cuts.push_back(cut);
    }
    return cuts;
}

std::int64_t first_samples(const SourceProgress& progress, std::int64_t tokens) {
    if (progress.changes.empty()) return samples_in_order(tokens, first_order(progress, tokens, 0));
    return cuts_of(progress, tokens).back().samples;
}

std::int64_t epoch_samples(std::int64_t tokens, std::int64_t seq_length) {
    return std::max<std::int64_t>((tokens - 1) / seq_length, 1);
}

std::int64_t tokens_in_samples(std::int64_t samples, std::int64_t seq_length,
                               const std::optional<DataPhase>& phase) {
    if (!phase) return checked_mul(samples, seq_length);
    return phase->first_token + checked_mul(samples - phase->first_sample, seq_length);
}

DataPhase change_data(const SavedData& saved, const std::vector<NewSource>& sources,
                      std::int64_t seq_length, const IndexCache& cache) {
    std::vector<SourceProgress> before =
        saved.phase ? progress_in_phase(saved, cache) : progress_in_pass(saved, cache);
    DataPhase phase = {
        .first_sample = saved.consumed_samples,
        .first_token = tokens_in_samples(saved.consumed_samples, saved.seq_length, saved.phase),
        .sources = {}};
    for (const NewSource& source : sources) {
        const auto known =
            std::ranges::find(before, source.fingerprint, &SourceProgress::fingerprint);
        if (known == before.end()) {
            phase.sources.push_back(start_of(source, 0, seq_length));
        } else {
            phase.sources.push_back(with_length(*known, source, seq_length));
            before.erase(known);
        }
    }
    phase.sources.insert(phase.sources.end(), before.begin(), before.end());
    return phase;
}

SourceStream::SourceStream(OpenOrder open, SourceProgress from, std::int64_t tokens,
                           std::string name, const IndexCache& cache)
    : open_(std::move(open)),
      from_(std::move(from)),
      first_samples_(first_samples(from_, tokens)),
      epoch_samples_(epoch_samples(tokens, from_.seq_length)),
      name_(std::move(name)),
      cache_(cache.alone()) {
    GPTRAIN_CHECK(first_samples_ >= 0 && from_.given >= 0);
    find(0, cache);
}

SourceStream::Place SourceStream::find(std::int64_t index, const IndexCache& cache) const {
    const std::int64_t given = checked_add(from_.given, index);
    const std::int64_t after_first = given - first_samples_;
    const std::int64_t number = after_first < 0 ? 0 : 1 + after_first / epoch_samples_;
    const std::lock_guard lock(mutex_);
    if (number != order_number_) {
        const std::int64_t pass = from_.pass + number + 1;
        if (order_ && announces_pass(pass))
            print("data: pass ", pass, " over ", name_, " starts (reshuffled)");
        order_ = open_(number, cache);
        order_number_ = number;
    }
    return {order_, number == 0 ? given : after_first % epoch_samples_};
}

std::int64_t SourceStream::sample(std::int64_t index, std::span<std::int32_t> tokens) const {
    const Place place = find(index);
    return place.order->sample(place.index, tokens);
}

void SourceStream::weights(std::int64_t index, std::span<float> weights) const {
    const Place place = find(index);
    place.order->weights(place.index, weights);
}

std::string SourceStream::place_of(std::int64_t index, std::int64_t offset) const {
    const Place place = find(index);
    return place.order->place_of(place.index, offset);
}

ContinuedDataset::ContinuedDataset(std::int64_t first_sample,
                                   std::vector<std::unique_ptr<SourceStream>> streams,
                                   const std::vector<double>& weights, std::int64_t num_samples,
                                   const IndexCache& cache)
    : first_sample_(first_sample), streams_(std::move(streams)) {
    GPTRAIN_CHECK(streams_.size() == weights.size() && !streams_.empty());
    if (streams_.size() > 1) order_.emplace(plan_blend(weights, num_samples), cache);
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

void ContinuedDataset::weights(std::int64_t index, std::span<float> weights) const {
    const Place place = find(index);
    place.stream.weights(place.index, weights);
}

std::string ContinuedDataset::place_of(std::int64_t index, std::int64_t offset) const {
    const Place place = find(index);
    return place.stream.place_of(place.index, offset);
}

}  // namespace gptrain
