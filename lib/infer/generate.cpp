#include "infer/generate.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/log.h"

namespace gptrain {
namespace {

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

std::string why_no_further(const RunPlan& plan, const TextGenerator& generator) {
    const std::int64_t last = last_position(plan.model);
    if (generator.most_tokens() < last)
        return text("there is room for ", generator.most_tokens(), " tokens; see --context");
    return text("the model's last position is ", last, source_of_positions(plan.model));
}

void write_samples(const InferenceRun& run, TextGenerator& generator, const PromptCodec& codec,
                   const std::vector<std::int32_t>& ids, std::int64_t turn,
                   const GenerateOptions& options, const Reader& reader) {
    for (std::int64_t i = 0; i < options.samples; ++i) {
        if (options.samples > 1)
            reader.show(text("--- sample ", i + 1, " of ", options.samples, " ---\n"));
        if (options.echo) reader.show(codec.decode(ids));
        const TextEnd end =
            generator.write(ids, {codec, ids}, options.write, {.sample = i, .turn = turn}, reader);
        reader.show("\n");
        generator.warn_of_length();
        if (end == TextEnd::enough) return;
        if (end != TextEnd::last_position || run.ranks.rank() != 0) continue;
        warn("stopped after ", generator.most_tokens() - std::ssize(ids), " of ",
             options.write.max_tokens, " tokens: ", why_no_further(run.plan, generator));
    }
}

}  // namespace

void generate(const InferenceRun& run, std::string_view prompt, const GenerateOptions& options,
              const Reader& reader) {
    const std::string common = run.ranks.broadcast(std::string(prompt));
    const PromptCodec codec(run);
    std::vector<std::int32_t> ids;
    std::int64_t new_tokens = 0;
    run.ranks.run_on_all([&] {
        ids = codec.encode(common);
        new_tokens = tokens_after(std::ssize(ids), options.write.max_tokens, run.plan);
    });
    TextGenerator generator(run, codec,
                            {.positions = std::ssize(ids) + new_tokens,
                             .prompt = std::ssize(ids),
                             .option = "--max-tokens"});
    write_samples(run, generator, codec, ids, 0, options, reader);
}

PromptLoop::PromptLoop(const InferenceRun& run, std::int64_t positions)
    : run_(run), codec_(run), generator_(run, codec_, {positions, 0, "--context"}) {}

void PromptLoop::continue_prompt(std::string_view prompt, std::int64_t turn,
                                 const GenerateOptions& options, const Reader& reader) {
    std::vector<std::int32_t> ids;
    run_.ranks.run_on_all([&] {
        ids = codec_.encode(prompt);
        if (std::ssize(ids) < generator_.most_tokens()) return;
        fail(ExitCode::usage, "the prompt has ", ids.size(), " tokens, but only ",
             generator_.most_tokens(),
             " fit together with its continuation; shorten it or raise --context");
    });
    write_samples(run_, generator_, codec_, ids, turn, options, reader);
}

}  // namespace gptrain
