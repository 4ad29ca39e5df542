#include "infer/scorer.h"

#include <algorithm>
#include <optional>

#include "engine/memory_check.h"
#include "engine/text_scores.h"
#include "meter/meter_backend.h"

namespace gptrain {
namespace {

// Tokens that go through the model together: enough for matrices that keep a device busy.
constexpr std::int64_t tokens_per_pass = 4096;

/// The plan for these requests.
RunPlan plan_for(std::span<const ScoreRequest> requests, RunPlan plan) {
    const std::int64_t longest = plan.model.virtual_tokens() + longest_input(requests);
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
    set_evaluation_batches(plan, std::ssize(requests));
    return plan;
}

/// A model that only scores.
struct ScoringModel {
    ScoringModel(Backend& backend, const Mesh& mesh, const RunPlan& plan,
                 const std::optional<MemoryPlan>& memory = std::nullopt)
        : model(backend, mesh, plan, memory),
          scorer(model.context(), model.chunks(), model.parameters(), plan,
                 reserve_step_state(model.memory(), 1),
                 reserve_forward(model.context(), evaluation_sizes(plan, mesh))) {}

    InferenceModel model;
    TargetScorer scorer;
};

/// The memory that it needs; no batch is larger than the plan's.
MemoryPlan scoring_memory(const InferenceRun& run, const RunPlan& plan) {
    MeterBackend meter(memory_of(run.backend));
    const Mesh mesh = meter_mesh(plan, run.mesh.place());
    ActionListeners nobody;
    ScoringModel scoring(meter, mesh, plan);
    const std::vector<Microbatch> batch(
        static_cast<std::size_t>(plan.microbatches(plan.batch.global_batch_size)));
    scoring.scorer.score(batch, plan.seq_length, nobody, [](auto&&...) {});
    return scoring.model.memory().peaks();
}

}  // namespace

std::vector<TokenScores> score(const InferenceRun& run, std::span<const ScoreRequest> requests,
                               const std::function<void(std::int64_t, std::int64_t)>& progress) {
    RunPlan plan = run.plan;
    run.ranks.run_on_all([&] { plan = plan_for(requests, plan); });
    const MemoryPlan memory = scoring_memory(run, plan);
    MemoryCheck(run.backend, run.ranks).require(memory, more_ranks_advice);
    std::optional<ScoringModel> scoring;
    run.ranks.run_on_all([&] { scoring.emplace(run.backend, run.mesh, plan, memory); });
    scoring->model.load(run.source, run.ranks);
    run.observers.watchdog.progress().phase("evaluation", 0);
    std::vector<TokenScores> scores = score_requests(scoring->scorer, run.ranks, requests,
                                                     run.observers.actions, [&](std::int64_t done) {
                                                         progress(done, std::ssize(requests));
                                                         return true;
                                                     });
    run.ranks.run_on_first([&] {
        if (!are_finite(scores)) fail(ExitCode::numerical, "the model's logits are not finite");
    });
    return scores;
}

}  // namespace gptrain
