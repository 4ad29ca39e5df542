// From the run spec's `data` section to the samples of training and validation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/sample_source.h"
#include "data/token_meta.h"
#include "spec/run_spec.h"

namespace gptrain {

struct DataOptions {
    std::uint64_t seed = 1234;
    std::int64_t seq_length = 0;
    /// Training samples of one pass; fixes their order. Open: one pass over the corpus, the sum
    /// over the sources of floor((T - 1) / seq_length), T the source's training tokens; at least 1.
    std::optional<std::int64_t> num_samples;
    std::int64_t eval_samples = 0;  ///< samples of one evaluation; 0: no validation
    std::filesystem::path cache_folder;
    std::int64_t run_samples = 0;                     ///< training samples that all steps take
    std::optional<ExpectedTokenizer> tokenizer = {};  ///< what the tokens should be made with
};

/// Identity of one token data set, for the rules of resuming.
struct SourceIdentity {
    std::filesystem::path prefix;
    double weight = 1.0;
    std::string fingerprint;  ///< IndexedDataset::fingerprint

    bool operator==(const SourceIdentity&) const = default;
};

struct TrainingData {
    /// Endless: what lies beyond num_samples comes from further passes, pass p in the order of seed
    /// + p.
    std::shared_ptr<const SampleSource> train;
    std::int64_t num_samples = 0;   ///< of one pass of `train`
    std::int64_t train_tokens = 0;  ///< in the corpus, of which a pass may read more or less
    /// Null if there is no validation token (or no evaluation was asked for): evaluation is off.
    std::shared_ptr<const SampleSource> validation;
    std::int64_t validation_tokens = 0;  ///< as in `train_tokens`; 0 without an evaluation
    std::vector<SourceIdentity> train_sources;
    std::vector<SourceIdentity>
        validation_sources;  ///< as given by the spec; empty: split from train
    /// Of a source that the run reads more than 40 times over, the one most often read; else empty.
    std::string warning;
};

/// Opens and checks all sources, and builds or maps the indices. With `data.validation` every
/// source is used whole; else the sequences of each training source are cut by `data.split` into
/// training and validation (the third part is never read). A training part without a token is an
/// Error (bad_input) that names the source; sources without a validation token leave the validation
/// blend, and if none is left `validation` is null. Sources whose .meta.json names another
/// tokenizer than `options.tokenizer` (without one: than that of another source) are an Error
/// (usage); that some have no .meta.json is said.
TrainingData make_training_data(const DataSpec& spec, const DataOptions& options);

}  // namespace gptrain
