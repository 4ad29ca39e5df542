// Training data that replaces other data in the middle of a run: what each source has given so far,
// and the samples from then on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/blended_dataset.h"
#include "data/gpt_dataset.h"
#include "data/recut_order.h"
#include "data/sample_source.h"

namespace gptrain {

/// The progress of an order at the time when the length of its samples changed.
struct LengthChange {
    std::int64_t seq_length = 0;  ///< until then
    std::int64_t given = 0;       ///< samples of that length

    bool operator==(const LengthChange&) const = default;
};

/// How far a source has been read. It gives the samples of one order after the other. The first is
/// Megatron's for the run's seed + `pass` and `num_samples` (or `needed`, if `num_samples` gives
/// fewer samples than that, as in a BlendedDataset). Each time the length of samples changes in it,
/// the unread samples are cut again (RecutOrder, same seed), except a separate last epoch that has
/// not begun. Order j after the first is one epoch, shuffled with the seed + `pass` + j.
struct SourceProgress {
    std::string fingerprint;  ///< IndexedDataset::fingerprint
    std::int64_t pass = 0;
    std::int64_t num_samples = 1;
    std::int64_t needed = 1;
    std::int64_t given = 0;             ///< samples read of these orders, since the last change
    std::int64_t seq_length = 0;        ///< of these samples
    std::vector<LengthChange> changes;  ///< in the first order, the earliest first

    bool operator==(const SourceProgress&) const = default;
};

/// The options of the Megatron order in which `progress` began, of a source with `tokens` training
/// tokens.
OrderOptions first_order(const SourceProgress& progress, std::int64_t tokens, std::uint64_t seed);
/// The samples that a change of `progress` left to cut, and their new length. Error (bad_input) if
/// more samples were read than exist.
struct Cut {
    SampleRange left;
    std::int64_t seq_length = 0;
    std::int64_t samples = 0;  ///< of that length; may be none
};
std::vector<Cut> cuts_of(const SourceProgress& progress, std::int64_t tokens);
/// Samples of the first order, as last cut.
std::int64_t first_samples(const SourceProgress& progress, std::int64_t tokens);
/// Samples of an epoch: floor((T - 1) / S), at least 1.
std::int64_t epoch_samples(std::int64_t tokens, std::int64_t seq_length);

/// Data that a run has read since a change.
struct DataPhase {
    std::int64_t first_sample = 0;  ///< of the run, read from this data
    std::int64_t first_token = 0;   ///< tokens in the samples before it
    /// Before that sample: the training sources in order, then those that are no longer read.
    std::vector<SourceProgress> sources;

    bool operator==(const DataPhase&) const = default;
};

/// The training data of a run that resumes, as its checkpoint describes it.
struct SavedData {
    std::vector<std::string> fingerprints;  ///< of the training sources
    std::vector<double> weights;            ///< theirs
    std::int64_t num_samples = 1;           ///< of one pass
    std::int64_t seq_length = 1;
    std::optional<DataPhase> phase;  ///< empty if the data has never changed
    std::int64_t step = 0;
    std::int64_t consumed_samples = 0;
};

/// Tokens in the first `samples` samples of a run, of which those in the phase, or all without one,
/// have `seq_length`.
std::int64_t tokens_in_samples(std::int64_t samples, std::int64_t seq_length,
                               const std::optional<DataPhase>& phase);

/// A training source of the new data.
struct NewSource {
    std::string fingerprint;
    std::int64_t tokens = 1;  ///< for training
};

/// The phase that begins with the next sample after the checkpoint, whose samples have
/// `seq_length`. A source that was ever read continues where it stopped; others start with their
/// first sample. If sources are equal, the first takes the progress of the first. Maps the order of
/// the saved blend from `cache`, or builds it there.
DataPhase change_data(const SavedData& saved, const std::vector<NewSource>& sources,
                      std::int64_t seq_length, const IndexCache& cache);

/// The samples of one source from some progress on, without end.
class SourceStream {
public:
    /// Opens order `number` of the source, counted from the first.
    using OpenOrder = std::function<std::shared_ptr<const SampleSource>(std::int64_t number,
                                                                        const IndexCache& cache)>;
    /// Opens the first order now, by `cache`; each rank opens later ones alone. `tokens`: of the
    /// source, for training. `name`: of the source, in the line that announces a later order.
    SourceStream(OpenOrder open, SourceProgress from, std::int64_t tokens, std::string name,
                 const IndexCache& cache);

    std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const;
    void weights(std::int64_t index, std::span<float> weights) const;
    std::string place_of(std::int64_t index, std::int64_t offset) const;

private:
    struct Place {
        std::shared_ptr<const SampleSource> order;
        std::int64_t index;
    };
    Place find(std::int64_t index, const IndexCache& cache) const;
    Place find(std::int64_t index) const { return find(index, cache_); }

    OpenOrder open_;
    SourceProgress from_;
    std::int64_t first_samples_;
    std::int64_t epoch_samples_;
    std::string name_;
    IndexCache cache_;
    mutable std::mutex mutex_;
    mutable std::int64_t order_number_ = -1;
    mutable std::shared_ptr<const SampleSource> order_;
};

/// The samples of a run from the first one of a phase on, without end: the sources' streams blended
/// by weight. The order of the blend starts over every `Blend::size` samples; the streams do not.
class ContinuedDataset final : public SampleSource {
public:
    /// `streams`: one for each weight. A single one is not blended.
    ContinuedDataset(std::int64_t first_sample, std::vector<std::unique_ptr<SourceStream>> streams,
                     const std::vector<double>& weights, std::int64_t num_samples,
                     const IndexCache& cache);

    /// The largest index, as there is no end.
    std::int64_t size() const override;
    /// `index` counts the samples of the run; those before the phase are Errors (bug).
    std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const override;
    void weights(std::int64_t index, std::span<float> weights) const override;
    std::string place_of(std::int64_t index, std::int64_t offset) const override;

private:
    struct Place {
        const SourceStream& stream;
        std::int64_t index;
    };
    Place find(std::int64_t index) const;

    std::int64_t first_sample_;
    std::vector<std::unique_ptr<SourceStream>> streams_;
    std::optional<BlendOrder> order_;  ///< empty for a single stream
};

}  // namespace gptrain
