#include "infer/scorer.h"

#include <algorithm>
#include <optional>

#include "engine/memory_check.h"
#include "engine/text_batches.h"
#include "engine/text_scores.h"
#include "engine/text_writing.h"
#include "meter/meter_backend.h"

namespace gptrain {
namespace {

// Tokens that go through the model together: enough for matrices that keep a device busy.
constexpr std::int64_t tokens_per_pass = 4096;

/// The texts that pass through a model.
struct TextSizes {
    std::int64_t count = 0;
    std::int64_t longest = 0;  ///< tokens, without virtual ones
    bool written = false;      ///< by the model, which takes logits
};

RunPlan plan_for(const TextSizes& texts, RunPlan plan) {
    const std::int64_t longest = plan.model.virtual_tokens() + texts.longest;
    plan.end_of_document.reset = false;
    plan.tensor_pieces = 1;
    plan.seq_length = longest;
    if (!takes_shorter_batches(plan))
        plan.seq_length = round_up(longest, 2 * plan.mesh.context * plan.mesh.tensor);
    const bool learned = plan.model.position_embedding == PositionEmbedding::learned;
    if (learned && plan.seq_length > plan.model.max_positions) {
        fail(ExitCode::usage, "on this mesh, texts of ", longest, " tokens are padded to ",
             plan.seq_length, ", but the model has only ", plan.model.max_positions,
             " positions; set another parallel.context, or turn off sequence_parallel");
    }
    plan.micro_batch_size = std::max<std::int64_t>(tokens_per_pass / plan.seq_length, 1);
    set_evaluation_batches(plan, texts.count);
    return plan;
}

/// A model that makes forward passes only.
class PassesModel {
public:
    PassesModel(Backend& backend, const Mesh& mesh, const RunPlan& plan, bool with_logits,
                const std::optional<MemoryPlan>& memory = std::nullopt)
        : model_(backend, mesh, plan, memory),
          passes_(model_.context(), model_.chunks(), model_.parameters(), plan,
                  reserve_step_state(model_.memory(), 1),
                  reserve_forward(model_.context(), evaluation_sizes(plan, mesh)), with_logits) {}

    InferenceModel& model() { return model_; }
    const ForwardPasses& passes() const { return passes_; }

private:
    InferenceModel model_;
    ForwardPasses passes_;
};

/// The memory that it needs; no batch is larger than the plan's.
MemoryPlan memory_for(const InferenceRun& run, const RunPlan& plan, bool with_logits) {
    MeterBackend meter(memory_of(run.backend));
    const Mesh mesh = meter_mesh(plan, run.mesh.place());
    PassesModel measured(meter, mesh, plan, with_logits);
    run_for_memory(measured.passes(), plan.microbatches(plan.batch.global_batch_size));
    return measured.model().memory().peaks();
}

/// Calls `use` with forward passes that have room for these texts.
void with_passes(const InferenceRun& run, const TextSizes& texts,
                 const std::function<void(const ForwardPasses&)>& use) {
    RunPlan plan = run.plan;
    run.ranks.run_on_all([&] { plan = plan_for(texts, plan); });
    const MemoryPlan memory = memory_for(run, plan, texts.written);
    MemoryCheck(run.backend, run.ranks).require(memory, more_ranks_advice);
    std::optional<PassesModel> loaded;
    run.ranks.run_on_all(
        [&] { loaded.emplace(run.backend, run.mesh, plan, texts.written, memory); });
    loaded->model().load(run.source, run.ranks);
    run.observers.watchdog.progress().phase("evaluation", 0);
    use(loaded->passes());
}

/// Error (numerical) on all ranks if rank 0 finds that the model is not finite.
void require_finite(const InferenceRun& run, const std::function<bool()>& is_finite) {
    run.ranks.run_on_first([&] {
        if (!is_finite()) fail(ExitCode::numerical, "the model's logits are not finite");
    });
}

}  // namespace

std::vector<TokenScores> score(const InferenceRun& run, std::span<const ScoreRequest> requests,
                               const TextProgress& progress) {
    const TextSizes texts = {.count = std::ssize(requests), .longest = longest_input(requests)};
    std::vector<TokenScores> scores;
    with_passes(run, texts, [&](const ForwardPasses& passes) {
        scores = score_requests(passes, run.ranks, requests, run.observers.actions,
                                [&](std::int64_t done) {
                                    progress(done, texts.count);
                                    return true;
                                });
    });
    require_finite(run, [&] { return are_finite(scores); });
    return scores;
}

std::vector<std::string> write_by_passes(const InferenceRun& run,
                                         std::span<const WriteRequest> requests,
                                         const WritingRules& rules, const TextProgress& progress) {
    const TextSizes texts = {
        .count = std::ssize(requests), .longest = longest_text(requests), .written = true};
    WrittenTexts written;
    with_passes(run, texts, [&](const ForwardPasses& passes) {
        written = *write_texts(passes, run.ranks, requests, rules, run.observers.actions,
                               [&](std::int64_t done) {
                                   progress(done, texts.count);
                                   return true;
                               });
    });
    require_finite(run, [&] { return written.is_finite; });
    return std::move(written.texts);
}

}  // namespace gptrain
