#include "train/generate.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "text/tokenizer.h"

namespace gptrain {
namespace {

/// Prompt and output as text, or as ids where the run has no tokenizer.
class Language {
public:
    explicit Language(const RunSpec& spec) {
        if (!spec.data.tokenizer) {
            end_ = spec.data.eod_id;
            return;
        }
        tokenizer_.emplace(*spec.data.tokenizer);
        decoder_.emplace(*tokenizer_);
        end_ = spec.data.eod_id;
        if (!end_) end_ = tokenizer_->eos_id();
    }

    std::vector<std::int32_t> encode(std::string_view prompt) const {
        std::vector<std::int32_t> ids;
        if (tokenizer_) {
            tokenizer_->encode(prompt, ids);
        } else {
            read_ids(prompt, ids);
        }
        return ids;
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
                fail(ExitCode::usage, "the run has no tokenizer, so the prompt is token ids; '",
                     word, "' is none");
            }
            ids.push_back(static_cast<std::int32_t>(*id));
            prompt.remove_prefix(word.size());
        }
    }

    std::optional<Tokenizer> tokenizer_;
    std::optional<StreamDecoder> decoder_;
    std::optional<std::int64_t> end_;
};

void check_prompt(const std::vector<std::int32_t>& ids, const RunPlan& plan) {
    if (ids.empty()) {
        fail(ExitCode::usage,
             "the prompt is empty, and the run has no end-of-document id to start from");
    }
    for (const std::int32_t id : ids) {
        if (id >= plan.model.vocab) {
            fail(ExitCode::usage, "token ", id, " of the prompt is outside of the vocabulary of ",
                 plan.model.vocab);
        }
    }
}

}  // namespace

void generate(const ValidCheckpoint& checkpoint, std::string_view prompt,
              const GenerateOptions& options, Backend& backend, const Mesh& mesh, bool cuda,
              const std::function<void(std::string_view)>& show) {
    const RunSpec spec = spec_of(checkpoint);
    const RunPlan plan = inference_plan(spec, cuda);
    Language language(spec);
    std::vector<std::int32_t> ids = language.encode(prompt);
    if (ids.empty() && language.end()) ids.push_back(narrow<std::int32_t>(*language.end()));
    check_prompt(ids, plan);

    const auto prompt_tokens = static_cast<std::int64_t>(ids.size());
    std::int64_t new_tokens = options.max_tokens;
    if (plan.model.position_embedding == PositionEmbedding::learned) {
        new_tokens = std::min(new_tokens, plan.model.max_positions - prompt_tokens);
        if (new_tokens <= 0 && options.max_tokens > 0) {
            fail(ExitCode::usage, "the prompt has ", prompt_tokens, " tokens, and the model only ",
                 plan.model.max_positions, " positions");
        }
    }
    const auto model = load_model(
        checkpoint, backend, mesh, plan,
        {.sequences = 1, .seq_length = prompt_tokens, .cached_tokens = prompt_tokens + new_tokens});
    for (std::int64_t i = 0; i < new_tokens; ++i) {
        const std::int32_t next = sample_token(model->next_logits(ids), options.sampling, i);
        if (language.end() && next == *language.end()) break;
        show(language.decode(next));
        ids.assign(1, next);
    }
    show(language.finish());
}

}  // namespace gptrain
