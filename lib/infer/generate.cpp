#include "infer/generate.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/log.h"
#include "engine/fit_advice.h"
#include "engine/memory_check.h"
#include "infer/generator.h"
#include "infer/positions.h"
#include "text/tokenizer.h"

namespace gptrain {
namespace {

/// Converts prompt and output between text and token ids; uses ids alone if the run has no
/// tokenizer.
class PromptCodec {
public:
    PromptCodec(const RunPlan& plan, const RunTokenizer& tokenizer)
        : tokenizer_(tokenizer.open()), end_(plan.end_of_document.id) {
        if (!tokenizer_) return;
        decoder_.emplace(*tokenizer_);
        if (!end_) end_ = tokenizer_->eos_id();
    }
    PromptCodec(const PromptCodec&) = delete;
    PromptCodec& operator=(const PromptCodec&) = delete;

    std::vector<std::int32_t> encode(std::string_view prompt) const {
        std::vector<std::int32_t> ids;
        if (tokenizer_) {
            tokenizer_->encode(prompt, ids);
        } else {
            read_ids(prompt, ids);
        }
        return ids;
    }
    std::string decode(std::span<const std::int32_t> ids) {
        std::string shown;
        for (const std::int32_t id : ids)
            shown += decode(id);
        return shown;
    }
    std::string decode(std::int32_t id) { return decoder_ ? decoder_->push(id) : text(id, " "); }
    std::string finish() { return decoder_ ? decoder_->finish() : std::string(); }
    std::optional<std::int64_t> end() const { return end_; }

private:
    static void read_ids(std::string_view prompt, std::vector<std::int32_t>& ids) {
        while (true) {
            const std::size_t begin = prompt.find_first_not_of(" \t\r\n");
            if (begin == std::string_view::npos) return;
            prompt.remove_prefix(begin);
            const std::string_view word = prompt.substr(0, prompt.find_first_of(" \t\r\n"));
            const auto id = parse_int(word);
            if (!id || *id < 0 || *id > INT32_MAX) {
                fail(ExitCode::usage,
                     "the run has no tokenizer, so the prompt must be token ids; '", word,
                     "' is not one");
            }
            ids.push_back(static_cast<std::int32_t>(*id));
            prompt.remove_prefix(word.size());
        }
    }

    std::optional<Tokenizer> tokenizer_;
    std::optional<StreamDecoder> decoder_;
    std::optional<std::int64_t> end_;
};

void check_mesh(const RunPlan& plan) {
    const MeshShape& mesh = plan.mesh;
    if (mesh.data == 1 && mesh.context == 1 && !plan.sequence_parallel) return;
    fail(ExitCode::usage,
         "generate splits one text over parallel.tensor x parallel.pipeline ranks (", mesh.tensor,
         " x ", mesh.pipeline, "; ", mesh.size(), " were started)",
         mesh.context == 1 ? "" : "; parallel.context must be 1",
         plan.sequence_parallel ? "; parallel.sequence_parallel must be false" : "",
         "; set them with --set");
}

void check_prompt(const std::vector<std::int32_t>& ids, const RunPlan& plan) {
    if (ids.empty()) {
        fail(ExitCode::usage,
             "the prompt is empty, and the run has no end-of-document id to start from");
    }
    for (const std::int32_t id : ids) {
        if (id >= plan.model.vocab) {
            fail(ExitCode::usage, "token ", id, " of the prompt is outside the vocabulary of ",
                 plan.model.vocab);
        }
    }
}

/// The number of tokens that can follow a prompt.
std::int64_t tokens_after(std::int64_t prompt_tokens, std::int64_t wanted, const RunPlan& plan) {
    const std::int64_t left = last_position(plan.model) - prompt_tokens;
    if (left <= 0 && wanted > 0) {
        fail(ExitCode::usage, "the prompt has ", prompt_tokens, " tokens, but the model has only ",
             last_position(plan.model), " positions", source_of_positions(plan.model),
             "; shorten it");
    }
    return std::min(wanted, left);
}

/// The memory that a generator needs, from the first token on.
MemoryPlan measured_memory(const InferenceRun& run, const RunPlan& plan,
                           const std::vector<std::int32_t>& prompt) {
    return measure_generator(plan, run.mesh.place(), memory_of(run.backend), std::ssize(prompt))
        .memory;
}

/// The same. If some rank lacks that memory, an Error (usage) on all.
MemoryPlan checked_memory(const InferenceRun& run, const RunPlan& plan,
                          const std::vector<std::int32_t>& prompt) {
    const MemoryPlan memory = measured_memory(run, plan, prompt);
    const MemoryCheck check(run.backend, run.ranks);
    check.require(memory, [&] {
        const std::int64_t prompt_tokens = std::ssize(prompt);
        const std::int64_t fitting =
            largest_that_fits(0, plan.seq_length - prompt_tokens, [&](std::int64_t new_tokens) {
                RunPlan shorter = plan;
                shorter.seq_length = prompt_tokens + new_tokens;
                return !check.find_shortage(measured_memory(run, shorter, prompt));
            });
        return fitting > 0 ? text("what would fit: --max-tokens ", fitting) : more_ranks_advice();
    });
    return memory;
}

}  // namespace

void generate(const InferenceRun& run, std::string_view prompt, const GenerateOptions& options,
              const std::function<void(std::string_view)>& show) {
    const MpiSession& ranks = run.ranks;
    const std::string common = ranks.scatter([&](int) { return std::string(prompt); });
    RunPlan plan = run.plan;
    std::optional<PromptCodec> codec;
    std::vector<std::int32_t> ids;
    std::int64_t new_tokens = 0;
    ranks.run_on_all([&] {
        check_mesh(plan);
        codec.emplace(plan, run.tokenizer);
        ids = codec->encode(common);
        if (ids.empty() && codec->end()) ids.push_back(narrow<std::int32_t>(*codec->end()));
        check_prompt(ids, plan);
        new_tokens = tokens_after(std::ssize(ids), options.max_tokens, plan);
    });
    plan.micro_batch_size = 1;
    plan.seq_length = std::ssize(ids) + new_tokens;
    const MemoryPlan memory = checked_memory(run, plan, ids);
    std::optional<Generator> generator;
    ranks.run_on_all([&] {
        generator.emplace(run.backend, run.mesh, plan, std::ssize(ids), run.observers.actions,
                          memory);
    });
    generator->model().load(run.checkpoint);
    if (options.echo) show(codec->decode(ids));
    bool ended = false;  // by the model, with an end-of-document token
    for (std::int64_t i = 0; i < new_tokens; ++i) {
        run.observers.watchdog.progress().phase("generation", i + 1);
        const std::int32_t next = generator->next_token(ids, [&](std::span<const float> logits) {
            return sample_token(logits, options.sampling, i);
        });
        if (codec->end() && next == *codec->end()) {
            ended = true;
            break;
        }
        show(codec->decode(next));
        ids.assign(1, next);
    }
    show(codec->finish());
    if (!ended && new_tokens < options.max_tokens && ranks.rank() == 0) {
        warn("stopped after ", new_tokens, " of ", options.max_tokens,
             " tokens: the model's last position is ", last_position(plan.model),
             source_of_positions(plan.model));
    }
}

}  // namespace gptrain
