#include "infer/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/log.h"
#include "data/batch_loader.h"
#include "data/next_batch.h"
#include "data/sequential_dataset.h"
#include "data/virtual_tokens.h"
#include "engine/memory_check.h"
#include "meter/meter_backend.h"
#include "parquet/parquet_file.h"
#include "text/documents.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_text_bytes = std::int64_t{16} << 30;

std::shared_ptr<const IndexedDataset> open_tokens(const std::filesystem::path& prefix,
                                                  const RunTokenizer& tokenizer,
                                                  std::int64_t virtual_tokens) {
    auto tokens = std::make_shared<const IndexedDataset>(prefix, virtual_tokens);
    const std::optional<TokenMeta>& meta = tokens->meta();
    const std::optional<ExpectedTokenizer> expected = tokenizer.expected();
    if (!expected) return tokens;
    if (meta) {
        check_tokenizer(prefix, *meta, *expected);
    } else {
        report_unknown_tokenizer(prefix.string(), *expected);
    }
    return tokens;
}

bool has_json_key(const std::filesystem::path& path) {
    return named_json_lines(path) || named_parquet(path);
}

/// The text files of the data. A JSON key is an Error (usage) if none of them has JSON lines.
std::vector<std::string> text_files(const EvaluationData& data, bool prints) {
    const std::filesystem::path& path = data.path;
    std::vector<std::string> files = {path.string()};
    const bool is_folder = std::filesystem::is_directory(path);
    require_folder(data.folder, is_folder);
    if (is_folder) {
        FolderCorpus corpus = corpus_in(path, CorpusFiles::all, data.tokenizer, data.folder);
        for (const std::string& note : corpus.notes) {
            if (prints) print(note);
        }
        files = std::move(corpus.files);
    } else if (!std::filesystem::is_regular_file(path)) {
        fail(ExitCode::bad_input, path.string(), ": not a regular file");
    }
    if (data.json_key && std::none_of(files.begin(), files.end(), has_json_key)) {
        fail(ExitCode::usage, "--json-key is for JSON lines and Parquet, but ", path.string(),
             " is read as plain text; rename it to .jsonl if it has JSON lines");
    }
    return files;
}

/// Appends the ids of a text file. Virtual tokens come before each document.
void append_ids(std::vector<std::int32_t>& ids, const std::string& path, const EvaluationData& data,
                const Tokenizer& tokenizer, std::int64_t virtual_tokens, bool prints) {
    const CorpusFormat format = {.json_lines = has_json_key(path),
                                 .json_key = data.json_key.value_or("text"),
                                 .documents = RecordUnit::file,
                                 .max_document_bytes = max_text_bytes};
    const std::unique_ptr<RecordSource> reader = open_corpus(path, format);
    if (prints && !format.json_lines) {
        if (const auto warning = prose_warning(path, reader->start()); !warning.empty())
            warn(warning);
    }
    std::string document;
    for (Record record; reader->next(record);) {
        if (const auto fault = take_document(record, format, document))
            fail(ExitCode::bad_input, place_of(record, path), ": ", fault->what);
        append_virtual_tokens(ids, virtual_tokens);
        tokenizer.encode(document, ids);
    }
}

/// The window length for a text: the run's, but at most what the text needs on the mesh. With
/// masking no token may be padding, so windows are only as long as the text fills.
std::int64_t window_length(std::int64_t tokens, const RunPlan& plan, const std::string& source) {
    const std::int64_t ranks = plan.mesh.context * plan.mesh.tensor;
    if (std::holds_alternative<CausalSpec>(plan.objective)) {
        return std::min(plan.seq_length,
                        round_up(std::max<std::int64_t>(tokens - 1, 1), 2 * ranks));
    }
    const std::int64_t unit = ranks == 1 ? 1 : 2 * ranks;
    if (tokens < unit) {
        fail(ExitCode::bad_input, source, ": has ", counted(tokens, "token"),
             ", but objective mlm needs at least ", unit, " on this mesh; give a longer text");
    }
    return std::min(plan.seq_length, tokens / unit * unit);
}

Windows windows_of(const RunPlan& plan) {
    return std::holds_alternative<MlmSpec>(plan.objective) ? Windows::whole : Windows::next_tokens;
}

std::shared_ptr<const SequentialDataset> open_data(const EvaluationData& data,
                                                   const InferenceRun& run) {
    const bool is_text = std::filesystem::exists(data.path) && !has_token_file(data.path);
    if (const auto prefix = token_prefix(data.path); !is_text && has_token_file(prefix)) {
        require_folder(data.folder, false);
        if (data.json_key) {
            fail(ExitCode::usage, "--json-key is for JSON lines and Parquet, but ", prefix.string(),
                 " is a token data set");
        }
        auto tokens = open_tokens(prefix, run.tokenizer, run.plan.model.virtual_tokens());
        if (tokens->learned_tokens(0, tokens->num_sequences()) == 0 && tokens->num_tokens() > 0) {
            fail(ExitCode::bad_input, prefix.string(),
                 ": its loss mask leaves no token to measure");
        }
        const std::int64_t length = window_length(tokens->num_tokens(), run.plan, prefix.string());
        return std::make_shared<SequentialDataset>(std::move(tokens), length, windows_of(run.plan));
    }
    require_path(data.path, ExitCode::bad_input, "text file, nor token data set with this prefix");
    const std::optional<Tokenizer> tokenizer = run.tokenizer.open();
    if (!tokenizer) {
        fail(ExitCode::usage, data.path.string(),
             ": no token data set has this prefix, and without a tokenizer the run cannot read "
             "text");
    }
    const bool prints = run.ranks.rank() == 0;
    std::vector<std::int32_t> ids;
    for (const std::string& file : text_files(data, prints))
        append_ids(ids, file, data, *tokenizer, run.plan.model.virtual_tokens(), prints);
    const std::int64_t length = window_length(std::ssize(ids), run.plan, data.path.string());
    return std::make_shared<SequentialDataset>(std::move(ids), data.path.string(), length,
                                               windows_of(run.plan));
}

/// The plan for these windows.
RunPlan plan_for(const SequentialDataset& source, RunPlan plan) {
    plan.seq_length = source.seq_length();
    set_evaluation_batches(plan, source.size());
    plan.tensor_pieces = 1;  // those of the spec need not divide these batches
    return plan;
}

class Evaluator {
public:
    Evaluator(Backend& backend, const Mesh& mesh, const RunPlan& plan,
              const std::optional<MemoryPlan>& memory = std::nullopt)
        : plan_(plan),
          model_(backend, mesh, plan, memory),
          state_(reserve_step_state(model_.memory(), 1)),
          executor_(make_stage(model_.context(), model_.chunks(), model_.parameters(), plan,
                               reserve_forward(model_.context(), evaluation_sizes(plan, mesh))),
                    state_) {}

    InferenceModel& model() { return model_; }
    Executor& executor() { return executor_; }

    WeightedSum loss(const StepBatch& batch) {
        return evaluate_batch(model_.context(), plan_, executor_, state_, batch).loss;
    }

private:
    const RunPlan& plan_;
    InferenceModel model_;
    StepRef state_;
    Executor executor_;
};

/// The memory that an evaluator needs; all batches have the same size.
MemoryPlan measured_memory(const InferenceRun& run, const RunPlan& plan) {
    MeterBackend meter(memory_of(run.backend));
    const Mesh mesh = meter_mesh(plan, run.mesh.place());
    Evaluator evaluator(meter, mesh, plan);
    StepBatch batch;
    batch.microbatches.resize(
        static_cast<std::size_t>(plan.microbatches(plan.batch.global_batch_size)));
    evaluator.loss(batch);
    return evaluator.model().memory().peaks();
}

}  // namespace

EvaluationResult evaluate(const InferenceRun& run, const EvaluationData& data,
                          const std::function<void(std::int64_t, std::int64_t)>& progress) {
    std::shared_ptr<const SequentialDataset> source;
    run.ranks.run_on_all([&] {
        const auto* const mlm = std::get_if<MlmSpec>(&run.plan.objective);
        if (mlm != nullptr && !mlm->mask_id) {
            fail(ExitCode::bad_input, run.source.folder().string(),
                 ": its spec does not give objective.mask_id");
        }
        source = open_data(data, run);
        if (source->num_targets() < 1)
            fail(ExitCode::bad_input, data.path.string(), ": has fewer than two tokens");
    });
    const RunPlan plan = plan_for(*source, run.plan);
    const MemoryPlan memory = measured_memory(run, plan);
    MemoryCheck(run.backend, run.ranks).require(memory, more_ranks_advice);
    std::optional<Evaluator> evaluator;
    run.ranks.run_on_all([&] { evaluator.emplace(run.backend, run.mesh, plan, memory); });
    evaluator->executor().listen(run.observers.actions);
    evaluator->model().load(run.source, run.ranks);

    Progress& watched = run.observers.watchdog.progress();
    const std::int64_t batches = div_ceil(source->size(), plan.batch.global_batch_size);
    BatchLoader loader(source, plan.batch, batch_shape(plan, run.mesh.place()),
                       {.first_step = 1, .last_step = batches, .consumed_samples = 0});
    WeightedSum sum;
    for (std::int64_t i = 0; i < batches; ++i) {
        watched.phase("evaluation", i + 1);
        sum.add(evaluator->loss(
            next_batch([&] { return loader.next(); }, run.mesh.place(), run.ranks)));
        progress(i + 1, batches);
    }
    if (sum.weight == 0) {
        fail(ExitCode::bad_input, data.path.string(),
             ": none of its tokens counts in the loss; give a longer text");
    }
    if (!std::isfinite(sum.mean())) {
        fail(ExitCode::numerical, data.path.string(),
             ": the loss is not finite: the model's logits contain NaN or overflow; if its weights "
             "are sound, --set precision.compute=fp32 may help");
    }
    return {
        .loss = sum.mean(), .perplexity = std::exp(sum.mean()), .tokens = std::llround(sum.weight)};
}

}  // namespace gptrain
