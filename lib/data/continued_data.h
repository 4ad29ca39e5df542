// Training data that replaces other data in the middle of a run: what each source has given so far,
// and the samples from then on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/blended_dataset.h"
#include "data/sample_source.h"

namespace gptrain {

/// How far a source has been read. It gives the samples of one order after the other. The first is
/// Megatron's for the run's seed + `pass` and `num_samples` (for `needed` where that has fewer than
/// `needed` samples, as in a BlendedDataset). Order j after it is one epoch, for the seed + `pass`
/// + j.
struct SourceProgress {
    std::string fingerprint;  ///< IndexedDataset::fingerprint
    std::int64_t pass = 0;
    std::int64_t num_samples = 1;
    std::int64_t needed = 1;
    std::int64_t given = 0;  ///< samples read of these orders

    bool operator==(const SourceProgress&) const = default;
};

/// Data that a run has read since a change.
struct DataPhase {
    std::int64_t first_sample = 0;  ///< of the run, read from this data
    /// Before that sample: the training sources in order, then those that are no longer read.
    std::vector<SourceProgress> sources;

    bool operator==(const DataPhase&) const = default;
};

/// The training data of a run that resumes, as its checkpoint describes it.
struct SavedData {
    std::vector<std::string> fingerprints;  ///< of the training sources
    std::vector<double> weights;            ///< theirs
    std::int64_t num_samples = 1;           ///< of one pass
    std::optional<DataPhase> phase;         ///< empty if the data has never changed
    std::int64_t consumed_samples = 0;
};

/// A training source of the new data.
struct NewSource {
    std::string fingerprint;
    std::int64_t epoch_samples = 1;
};

/// The phase that begins with the next sample after the checkpoint. A source that was read before,
/// whenever that was, goes on where it stopped; others start with their first sample. If sources
/// are equal, the first takes the progress of the first. Maps the order of the saved blend from
/// `cache_folder`, or builds it there.
DataPhase change_data(const SavedData& saved, const std::vector<NewSource>& sources,
                      const std::filesystem::path& cache_folder);

/// The samples of one source from some progress on, without end.
class SourceStream {
public:
    /// Opens the order of a source for the run's seed + `pass` and a number of samples.
    using OpenOrder = std::function<std::shared_ptr<const SampleSource>(std::int64_t pass,
                                                                        std::int64_t num_samples)>;
    /// `first_samples`: samples of the first order. `epoch_samples`: of each later one. `name`: of
    /// the source, in the line that announces a later order.
    SourceStream(OpenOrder open, SourceProgress from, std::int64_t first_samples,
                 std::int64_t epoch_samples, std::string name);

    std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const;
    std::string place_of(std::int64_t index, std::int64_t offset) const;

private:
    struct Place {
        std::shared_ptr<const SampleSource> order;
        std::int64_t index;
    };
    Place find(std::int64_t index) const;

    OpenOrder open_;
    SourceProgress from_;
    std::int64_t first_samples_;
    std::int64_t epoch_samples_;
    std::string name_;
    mutable std::mutex mutex_;
    mutable std::int64_t order_number_ = -1;
    mutable std::shared_ptr<const SampleSource> order_;
};

/// The samples of a run from the first one of a phase on, without end: the sources' streams blended
/// by weight. The order of the blend starts anew every `Blend::size` samples; the streams do not.
class ContinuedDataset final : public SampleSource {
public:
    /// `streams`: one for each weight. A single one is not blended.
    ContinuedDataset(std::int64_t first_sample, std::vector<std::unique_ptr<SourceStream>> streams,
                     const std::vector<double>& weights, std::int64_t num_samples,
                     const std::filesystem::path& cache_folder);

    /// The largest index, as there is no end.
    std::int64_t size() const override;
    /// `index` counts the samples of the run; those before the phase are Errors (bug).
    std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const override;
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
