#include "infer/text_generator.h"

#include <algorithm>

#include "base/log.h"
#include "engine/memory_check.h"
#include "meter/meter_backend.h"
#include "spec/fit_advice.h"
#include "text/stop_texts.h"

namespace gptrain {
namespace {

// Tokens of a prompt that go through the model together: enough for matrices that keep all cores
// busy.
constexpr std::int64_t max_at_once = 512;

/// The plan for one text of so many tokens behind the virtual ones.
RunPlan plan_for_text(RunPlan plan, std::int64_t positions) {
    plan.micro_batch_size = 1;
    plan.seq_length = plan.model.virtual_tokens() + positions;
    return plan;
}

/// The most tokens that go through the model together while a text grows to plan.seq_length.
std::int64_t tokens_at_once(const RunPlan& plan, const TextRoom& room) {
    const std::int64_t prompt = room.prompt > 0 ? room.prompt : plan.seq_length;
    return std::min(max_at_once, std::max<std::int64_t>(prompt - 1, 1));
}

/// The memory that a generator needs, from the first token to the last.
MemoryPlan measured_memory(const InferenceRun& run, const RunPlan& plan, std::int64_t at_once) {
    MeterBackend meter(memory_of(run.backend));
    const Mesh mesh = meter_mesh(plan, run.mesh.place());
    ActionListeners nobody;
    Generator generator(meter, mesh, plan, at_once, nobody);
    const std::int64_t positions = plan.seq_length - plan.model.virtual_tokens();
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::min(at_once, positions)));
    const auto next = [&] {
        generator.next_token(tokens, [](std::span<const float>) { return 0; });
    };
    next();
    generator.move_to(positions - std::ssize(tokens));
    next();
    return generator.model().memory().peaks();
}

MemoryPlan checked_memory(const InferenceRun& run, const RunPlan& plan, const TextRoom& room) {
    const MemoryPlan memory = measured_memory(run, plan, tokens_at_once(plan, room));
    const MemoryCheck check(run.backend, run.ranks);
    check.require(memory, [&] {
        const std::int64_t fitting =
            largest_that_fits(0, room.positions - room.prompt, [&](std::int64_t more) {
                const RunPlan shorter =
                    plan_for_text(plan, std::max<std::int64_t>(room.prompt + more, 1));
                return !check.find_shortage(
                    measured_memory(run, shorter, tokens_at_once(shorter, room)));
            });
        return fitting > 0 ? text("what would fit: ", room.option, " ", fitting)
                           : more_ranks_advice();
    });
    return memory;
}

}  // namespace

bool shares_sequences(const RunPlan& plan) {
    return plan.mesh.context > 1 || plan.sequence_parallel;
}

void check_mesh(const RunPlan& plan, std::string_view command, bool copies) {
    const MeshShape& mesh = plan.mesh;
    if ((mesh.data == 1 || copies) && !shares_sequences(plan)) return;
    fail(ExitCode::usage, command,
         " splits one text over parallel.tensor x parallel.pipeline ranks (", mesh.tensor, " x ",
         mesh.pipeline, "; ", mesh.size(), " were started)",
         mesh.context == 1 ? "" : "; parallel.context must be 1",
         plan.sequence_parallel ? "; parallel.sequence_parallel must be false" : "",
         "; set them with --set");
}

TextGenerator::TextGenerator(const InferenceRun& run, const PromptCodec& codec,
                             const TextRoom& room)
    : run_(run), codec_(codec), plan_(plan_for_text(run.plan, room.positions)) {
    run.ranks.run_on_all([&] { check_mesh(plan_, "generate", room.copies); });
    const MemoryPlan memory = checked_memory(run, plan_, room);
    run.ranks.run_on_all([&] {
        generator_.emplace(run.backend, run.mesh, plan_, tokens_at_once(plan_, room),
                           run.observers.actions, memory);
    });
    generator_->model().load(run.source, run.ranks);
}

void TextGenerator::read(std::span<const std::int32_t> prompt) {
    GPTRAIN_CHECK(!prompt.empty() && std::ssize(prompt) <= most_tokens());
    const auto known = std::span(text_).first(static_cast<std::size_t>(generator_->length()));
    const auto before = prompt.first(prompt.size() - 1);
    const auto same = std::mismatch(known.begin(), known.end(), before.begin(), before.end()).first;
    const std::int64_t common = same - known.begin();
    generator_->move_to(common);
    text_.assign(prompt.begin(), prompt.end());
    generator_->read(before.subspan(static_cast<std::size_t>(common)));
}

TextEnd TextGenerator::write(std::span<const std::int32_t> prompt, PromptCodec::Decoder decoder,
                             const WriteOptions& options, DrawPlace place, const Reader& reader) {
    StopTexts stop(options.stop);
    const auto choose = [&](std::span<const float> all) {
        const std::span<const float> logits = codec_.choices(all);
        std::vector<float> own(logits.begin(), logits.end());
        penalize(own, text_, options.sampling.repetition_penalty);
        return sample_token(own, options.sampling, place);
    };
    const auto show = [&](const std::string& text) {
        if (!text.empty()) reader.show(text);
    };
    TextEnd end = TextEnd::max_tokens;
    if (options.max_tokens > 0) read(prompt);
    for (std::int64_t i = 0; i < options.max_tokens; ++i, ++place.position) {
        run_.observers.watchdog.progress().phase("generation", i + 1);
        end = TextEnd::last_position;
        if (std::ssize(text_) >= most_tokens()) break;
        const std::int32_t next = generator_->next_token({&text_.back(), 1}, choose);
        end = TextEnd::end_token;
        if (codec_.ends(next)) break;
        text_.push_back(next);
        show(stop.push(decoder.push(next)));
        end = TextEnd::stop_text;
        if (stop.found()) break;
        end = TextEnd::enough;
        if (reader.enough && reader.enough()) break;
        end = TextEnd::max_tokens;
    }
    show(stop.push(decoder.finish()));
    show(stop.finish());
    return end;
}

void TextGenerator::warn_of_length() {
    const std::int64_t trained = trained_positions(plan_.model);
    if (has_warned_ || run_.ranks.rank() != 0 || std::ssize(text_) <= trained) return;
    has_warned_ = true;
    warn("the text has ", text_.size(), " tokens, more than the ", trained,
         " positions that the model was trained for (model.max_position_embeddings",
         plan_.model.prompt ? " less the virtual tokens" : "", "); beyond them it gets worse");
}

}  // namespace gptrain
