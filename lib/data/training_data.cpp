#include "data/training_data.h"

#include <algorithm>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "data/blended_dataset.h"
#include "data/endless_dataset.h"
#include "data/gpt_dataset.h"
#include "data/source_parts.h"

namespace gptrain {
namespace {

/// More repetitions make a model memorise the text (4 epochs cost nothing, more than 40 gain
/// little: Muennighoff et al. 2023, Scaling Data-Constrained Language Models).
constexpr double max_epochs = 40;

std::vector<SourceIdentity> identities_of(const std::vector<OpenedSource>& sources) {
    std::vector<SourceIdentity> identities;
    for (const OpenedSource& source : sources) {
        identities.push_back({source.spec.prefix, source.spec.weight, source.tokens->fingerprint(),
                              source.tokens->num_file_tokens()});
    }
    return identities;
}

/// Checks that all sources were made with the expected tokenizer, or at least with the same one.
void check_tokenizers(const std::vector<OpenedSource>& sources,
                      std::optional<ExpectedTokenizer> expected) {
    const bool given = expected.has_value();
    std::vector<std::string> unknown;
    for (const OpenedSource& source : sources) {
        const std::string prefix = source.spec.prefix.string();
        const std::optional<TokenMeta>& meta = source.tokens->meta();
        if (!meta) {
            unknown.push_back(prefix);
        } else if (expected) {
            check_tokenizer(source.spec.prefix, *meta, *expected);
        } else {
            expected = {text("the tokenizer of ", prefix, ", ", meta->tokenizer_file),
                        text(meta->tokenizer_crc32c)};
        }
    }
    if (!given || unknown.empty()) return;
    const std::size_t more = unknown.size() - 1;
    const std::string others = more > 0 ? text(" and ", more, " more") : "";
    report_unknown_tokenizer(unknown.front() + others, *expected);
}

/// Warns of each source without the ends of documents that the spec asks for.
std::vector<std::string> end_warnings(const std::vector<OpenedSource>& sources,
                                      const DataSpec& spec) {
    std::vector<std::string> warnings;
    const bool resets = spec.reset_at_eod.value_or(false);
    if (!resets && !spec.eod_mask_loss) return warnings;
    const std::string_view key = resets ? "data.reset_at_eod" : "data.eod_mask_loss";
    for (const OpenedSource& source : sources) {
        const std::optional<TokenMeta>& meta = source.tokens->meta();
        if (!meta || meta->append_eod) continue;
        warnings.push_back(text(key, " does nothing in ", source.spec.prefix.string(),
                                ", which was made without --append-eod: its documents have no "
                                "end-of-document ids"));
    }
    return warnings;
}

/// Warns of training data that is read twice as often as its weight asks for, and of validation
/// data that is also trained on.
std::vector<std::string> copy_warnings(const std::vector<SourceIdentity>& train,
                                       const std::vector<SourceIdentity>& validation) {
    std::map<std::string, std::filesystem::path> known;
    std::vector<std::string> warnings;
    for (const SourceIdentity& source : train) {
        const auto [first, is_new] = known.emplace(source.fingerprint, source.prefix);
        if (is_new) continue;
        warnings.push_back(text("data.train: ", first->second.string(), " and ",
                                source.prefix.string(),
                                " hold the same tokens; use one of them, with the sum of their "
                                "weights"));
    }
    for (const SourceIdentity& source : validation) {
        const auto trained = known.find(source.fingerprint);
        if (trained == known.end()) continue;
        warnings.push_back(text("data.validation: ", source.prefix.string(),
                                " holds the tokens of ", trained->second.string(),
                                " of data.train: val_loss is that of text that the model has "
                                "learned"));
    }
    return warnings;
}

/// Megatron's order over the parts. A single part is not blended, whatever its weight.
std::shared_ptr<const SampleSource> make_order(const std::vector<SourcePart>& parts,
                                               const OrderOptions& order, const IndexCache& cache) {
    const auto open = [&](std::size_t index, std::int64_t num_samples) {
        return std::make_shared<const GptDataset>(
            parts[index].tokens, parts[index].range,
            OrderOptions{order.seed, order.seq_length, num_samples}, cache);
    };
    if (parts.size() == 1) return open(0, order.num_samples);
    std::vector<double> weights;
    for (const SourcePart& part : parts)
        weights.push_back(part.weight);
    return std::make_shared<const BlendedDataset>(plan_blend(weights, order.num_samples), open,
                                                  cache);
}

/// Samples of one pass over the corpus. Weights do not change it: a source with a large weight
/// repeats within the pass, and one with a small weight is partly left for the next.
std::int64_t corpus_samples(const std::vector<SourcePart>& parts, std::int64_t seq_length) {
    std::int64_t samples = 0;
    for (const SourcePart& part : parts)
        samples += (part.num_tokens - 1) / seq_length;
    return std::max<std::int64_t>(samples, 1);
}

/// The warning about the part that the run reads most often; empty if it does not read it too
/// often.
std::string repetition_warning(const std::vector<SourcePart>& parts,
                               const std::optional<DataPhase>& phase, const DataOptions& options) {
    double weights = 0;
    for (const SourcePart& part : parts)
        weights += part.weight;
    const std::int64_t samples = options.run_samples - (phase ? phase->first_sample : 0);
    const double tokens = static_cast<double>(samples) * static_cast<double>(options.seq_length);
    const auto epochs = [&](const SourcePart& part) {
        return part.weight / weights * tokens / static_cast<double>(part.num_tokens);
    };
    const SourcePart& most = *std::max_element(
        parts.begin(), parts.end(),
        [&](const SourcePart& a, const SourcePart& b) { return epochs(a) < epochs(b); });
    if (epochs(most) <= max_epochs) return "";
    return text("data: this run reads the ", most.num_tokens, " training tokens of ",
                most.tokens->prefix().string(), " ", fixed(epochs(most), 0), " times; beyond ",
                fixed(max_epochs, 0),
                " times a model memorises them: use more text or fewer training.steps");
}

/// True if the run continues with training data, or a length of samples, other than the
/// checkpoint's.
bool differs(const SavedData& saved, const std::vector<SourceIdentity>& sources,
             const DataOptions& options) {
    if (saved.fingerprints.size() != sources.size()) return true;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        if (saved.fingerprints[i] != sources[i].fingerprint) return true;
        if (saved.weights[i] != sources[i].weight) return true;
    }
    return saved.seq_length != options.seq_length ||
           (options.num_samples && *options.num_samples != saved.num_samples);
}

/// The phase that begins after the checkpoint.
DataPhase changed_phase(const std::vector<SourcePart>& parts, const DataOptions& options) {
    std::vector<NewSource> sources;
    for (const SourcePart& part : parts)
        sources.push_back({part.tokens->fingerprint(), part.num_tokens});
    return change_data(*options.saved, sources, options.seq_length, options.cache);
}

/// Fills in the samples of a pass, and whether the data is that of the checkpoint or replaces it.
void choose_phase(TrainingData& data, OnChange on_change, const std::vector<SourcePart>& parts,
                  const DataOptions& options) {
    const auto& saved = options.saved;
    const bool goes_on = saved && !differs(*saved, data.train_sources, options);
    if (goes_on) data.phase = saved->phase;
    data.changed = saved && !goes_on && on_change == OnChange::go_on;
    if (data.changed) data.phase = changed_phase(parts, options);
    const bool keeps_pass = saved && !data.changed;
    data.num_samples = options.num_samples.value_or(
        keeps_pass ? saved->num_samples : corpus_samples(parts, options.seq_length));
}

/// The order in which the progress of a part began, cut again as often as the length changed.
std::shared_ptr<const WindowOrder> open_first_order(const SourcePart& part,
                                                    const SourceProgress& from, std::uint64_t seed,
                                                    const IndexCache& cache) {
    const OrderOptions first = first_order(from, part.num_tokens, seed);
    std::shared_ptr<const WindowOrder> order =
        std::make_shared<const GptDataset>(part.tokens, part.range, first, cache);
    for (const Cut& cut : cuts_of(from, part.num_tokens)) {
        order = std::make_shared<const RecutOrder>(std::move(order), cut.left, cut.seq_length,
                                                   first.seed, cache);
    }
    return order;
}

std::unique_ptr<SourceStream> make_stream(const SourcePart& part, const SourceProgress& from,
                                          const DataOptions& options) {
    const auto open = [=, seed = options.seed](
                          std::int64_t number,
                          const IndexCache& cache) -> std::shared_ptr<const SampleSource> {
        if (number == 0) return open_first_order(part, from, seed, cache);
        const OrderOptions order = {seed + static_cast<std::uint64_t>(from.pass + number),
                                    from.seq_length,
                                    epoch_samples(part.num_tokens, from.seq_length)};
        return std::make_shared<const GptDataset>(part.tokens, part.range, order, cache);
    };
    return std::make_unique<SourceStream>(open, from, part.num_tokens,
                                          part.tokens->prefix().string(), options.cache);
}

std::shared_ptr<const SampleSource> make_continued(const std::vector<SourcePart>& parts,
                                                   const DataPhase& phase, std::int64_t num_samples,
                                                   const DataOptions& options) {
    std::vector<std::unique_ptr<SourceStream>> streams;
    std::vector<double> weights;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        streams.push_back(make_stream(parts[i], phase.sources[i], options));
        weights.push_back(parts[i].weight);
    }
    return std::make_shared<const ContinuedDataset>(phase.first_sample, std::move(streams), weights,
                                                    num_samples, options.cache);
}

void check_training_parts(const std::vector<SourcePart>& parts,
                          const std::optional<DataSplit>& split, const std::string& split_words) {
    for (const SourcePart& part : parts) {
        if (part.learned_tokens > 0) continue;
        const std::string what =
            part.num_tokens > 0 ? "contains no learned tokens (loss mask)" : "contains no tokens";
        const std::string cause =
            split ? text("the training part of data.split \"", split_words, "\", sequences ",
                         part.range.begin, " to ", part.range.end, " of ",
                         part.tokens->num_sequences(), ", ", what)
                  : what;
        fail(ExitCode::bad_input, part.tokens->prefix().string(), ": ", cause,
             "; there is nothing to train on");
    }
}

std::vector<std::string> names_of(const std::vector<SourcePart>& parts) {
    std::map<std::string, std::set<std::string>> prefixes;
    const auto name_of = [](const SourcePart& part) {
        return part.tokens->prefix().filename().string();
    };
    for (const SourcePart& part : parts)
        prefixes[name_of(part)].insert(part.tokens->prefix().string());
    std::vector<std::string> names;
    for (const SourcePart& part : parts) {
        const bool alone = prefixes[name_of(part)].size() == 1;
        names.push_back(alone ? name_of(part) : part.tokens->prefix().string());
    }
    return names;
}

void add_validation(TrainingData& data, std::vector<SourcePart> parts, const OrderOptions& order,
                    const IndexCache& cache) {
    data.validation_tokens = tokens_of(parts);
    std::erase_if(parts, [](const SourcePart& part) { return part.learned_tokens == 0; });
    if (parts.empty()) return;
    data.validation = make_order(parts, order, cache);
    if (parts.size() > 1) data.blended_validation = names_of(parts);
}

}  // namespace

std::optional<std::int64_t> count_training_tokens(const DataSpec& spec,
                                                  std::int64_t virtual_tokens) {
    const auto is_there = [](const DataSource& source) {
        std::error_code unreadable;
        const std::string prefix = token_prefix(source.prefix).string();
        return std::filesystem::exists(prefix + ".idx", unreadable) &&
               std::filesystem::exists(prefix + ".bin", unreadable);
    };
    if (!std::all_of(spec.train.begin(), spec.train.end(), is_there)) return std::nullopt;
    return tokens_of(parts_of(open_sources(spec.train, virtual_tokens, nullptr), split_of(spec),
                              DataSplit::train, nullptr));
}

TrainingData make_training_data(const DataSpec& spec, const DataOptions& options) {
    const std::optional<DataSplit> split = split_of(spec);
    const IndexCache& cache = options.cache;
    const auto open = [&](const std::vector<DataSource>& sources) {
        return open_sources(sources, options.virtual_tokens, cache.ranks);
    };
    const std::vector<OpenedSource> train_sources = open(spec.train);
    const std::vector<OpenedSource> validation_sources = open(spec.validation);

    std::vector<OpenedSource> all = train_sources;
    all.insert(all.end(), validation_sources.begin(), validation_sources.end());
    check_tokenizers(all, options.tokenizer);

    TrainingData data;
    data.train_sources = identities_of(train_sources);
    data.validation_sources = identities_of(validation_sources);

    const std::vector<SourcePart> train =
        parts_of(train_sources, split, DataSplit::train, cache.ranks);
    check_training_parts(train, split, spec.split);
    data.train_tokens = tokens_of(train);
    data.learned_tokens = learned_tokens_of(train);
    data.run_samples = options.run_samples;
    choose_phase(data, spec.on_change, train, options);
    data.warnings = end_warnings(all, spec);
    for (std::string& warning : copy_warnings(data.train_sources, data.validation_sources))
        data.warnings.push_back(std::move(warning));
    if (auto repeats = repetition_warning(train, data.phase, options); !repeats.empty())
        data.warnings.push_back(std::move(repeats));
    if (data.phase) {
        data.train = make_continued(train, *data.phase, data.num_samples, options);
    } else {
        const auto open_pass = [=, samples = data.num_samples](std::int64_t pass,
                                                               const IndexCache& from) {
            const OrderOptions order{options.seed + static_cast<std::uint64_t>(pass),
                                     options.seq_length, samples};
            return make_order(train, order, from);
        };
        data.train = std::make_shared<const EndlessDataset>(open_pass, data.num_samples, cache);
    }

    if (options.eval_samples > 0) {
        const std::vector<OpenedSource>& sources = split ? train_sources : validation_sources;
        add_validation(data, parts_of(sources, split, DataSplit::validation, cache.ranks),
                       {options.seed, options.seq_length, options.eval_samples}, cache);
    }
    return data;
}

}  // namespace gptrain
