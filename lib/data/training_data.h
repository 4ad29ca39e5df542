// Turns the run spec's `data` section into training and validation samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/continued_data.h"
#include "data/index_cache.h"
#include "data/sample_source.h"
#include "data/token_meta.h"
#include "spec/run_spec.h"

namespace gptrain {

struct DataOptions {
    std::uint64_t seed = 1234;
    std::int64_t seq_length = 0;
    /// Training samples of one pass; determines their order. If empty: those of `saved`, if its
    /// data continues; else one pass over the corpus, which is the sum over the sources of floor((T
    /// - 1) / seq_length), T the source's training tokens, and at least 1.
    std::optional<std::int64_t> num_samples;
    std::int64_t eval_samples = 0;  ///< samples of one evaluation; 0: no validation
    /// With ranks, all ranks make the data together, in work that run_on_all runs, and share the
    /// reading of the files that must be checked whole.
    IndexCache cache = {""};
    std::int64_t run_samples = 0;                     ///< training samples of all steps
    std::optional<ExpectedTokenizer> tokenizer = {};  ///< the tokens should be made with it
    std::optional<SavedData> saved = {};              ///< of the checkpoint that the run resumes
    std::int64_t virtual_tokens = 0;                  ///< before each sequence of the sources
};

/// Identity of a token data set. Weight and fingerprint are compared when a run resumes; the others
/// describe it to people.
struct SourceIdentity {
    std::filesystem::path prefix;
    double weight = 1.0;
    std::string fingerprint;  ///< IndexedDataset::fingerprint
    std::int64_t tokens = 0;  ///< in its files

    bool operator==(const SourceIdentity&) const = default;
};

struct TrainingData {
    /// Endless: samples beyond num_samples come from further passes; pass p has the order of seed +
    /// p. In a phase, a ContinuedDataset.
    std::shared_ptr<const SampleSource> train;
    std::optional<DataPhase> phase;   ///< empty if the data has never changed
    bool changed = false;             ///< `phase` begins after `options.saved`
    std::int64_t num_samples = 0;     ///< samples of one pass of `train`
    std::int64_t run_samples = 0;     ///< of all steps, as in DataOptions
    std::int64_t train_tokens = 0;    ///< of the corpus; a pass may read more or fewer
    std::int64_t learned_tokens = 0;  ///< those of them that loss masks leave to learn
    /// Null if there are no validation tokens, or no evaluation was requested: evaluation is off.
    std::shared_ptr<const SampleSource> validation;
    /// Names of the sources that `validation` blends, as its source_of counts them: the last part
    /// of the prefix, or the whole prefix where two would be alike. Empty if there is only one.
    std::vector<std::string> blended_validation;
    std::int64_t validation_tokens = 0;  ///< of the corpus; 0 without evaluation
    std::vector<SourceIdentity> train_sources;
    std::vector<SourceIdentity> validation_sources;  ///< as in the spec; empty: split from train
    /// Warnings of the source read most often, if the run reads it more than 40 times, of each
    /// source made without the end-of-document ids that the spec asks for, and of sources with the
    /// same tokens.
    std::vector<std::string> warnings;
};

/// Opens and checks all sources, and builds or maps the indices. With `data.validation` every
/// source is used whole; otherwise `data.split` splits the sequences of each training source into
/// training and validation (the third part is never read). A training part without tokens that are
/// learned is an Error (bad_input) that names the source. Sources without validation tokens that
/// are learned leave the validation blend; if none is left, `validation` is null. If
/// `options.saved` has other training sources, weights, length of samples or (where given) number
/// of samples, `data.on_change: continue` begins a new phase; otherwise the caller is to refuse. A
/// source whose .meta.json names a tokenizer other than `options.tokenizer` (or, if that is empty,
/// other than another source's) is an Error (usage). Prints a note if sources lack a .meta.json.
TrainingData make_training_data(const DataSpec& spec, const DataOptions& options);

/// The training tokens of all sources together, with the virtual tokens before each sequence; empty
/// if a file of a source is missing. Builds no index. Error (bad_input) for a faulty source.
std::optional<std::int64_t> count_training_tokens(const DataSpec& spec,
                                                  std::int64_t virtual_tokens = 0);

}  // namespace gptrain
