// Every rank of the shipped specs of large models, executed for a whole step without the hardware.
#include <algorithm>
#include <numeric>

#include "catch.h"
#include "cuda/needs.h"
#include "planner/executed_mesh.h"
#include "planner/flop_costs.h"
#include "schedule/stage_plan.h"
#include "shipped_plan.h"
#include "spec/model_cost.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

/// With two microbatches for each stage: enough for every phase of the schedule, and a fraction of
/// what the shipped batch would take to execute.
RunPlan plan_with_few_microbatches(const std::string& name, std::int64_t ranks) {
    const RunPlan shipped = shipped_plan(name, ranks);
    const std::int64_t batch = shipped.batch.global_batch_size;
    RunSpec spec = shipped_spec(name);
    spec.training.global_batch_size =
        div_exact(batch, shipped.microbatches(batch)) * 2 * shipped.mesh.pipeline;
    return make_plan(spec, for_dry_run(ranks));
}

/// A shipped spec (tensor and sequence parallel, bf16, nothing recomputed in full) with all its
/// ranks.
class LargeMesh {
public:
    LargeMesh(const std::string& name, std::int64_t ranks)
        : plan_(plan_with_few_microbatches(name, ranks)),
          mesh_(execute_every_rank(plan_, cuda::backend_memory())) {
        REQUIRE(plan_.mesh.size() == ranks);
        REQUIRE(plan_.sequence_parallel);
    }

    void check_all() const {
        INFO("ranks that are not as their class");
        CHECK(mesh_.strangers == std::vector<std::int64_t>());
        CHECK_NOTHROW(check_whole_mesh(mesh_.ranks));
        CHECK_NOTHROW(check_whole_mesh(mesh_.ranks, StartRule::nccl));
        check_pipeline();
        for (int stage = 0; stage < plan_.mesh.pipeline; ++stage) {
            CAPTURE(stage);
            check_messages(stage);
            check_saved(stage);
            check_bytes(stage);
        }
        check_state();
    }

private:
    const StepCost& cost(const MeshPlace& place) const {
        return mesh_.class_of[static_cast<std::size_t>(rank_of(place, plan_.mesh))]->cost;
    }
    /// Logits of a microbatch on a rank, whose number of tokens is not split over tp.
    std::int64_t logits() const {
        return plan_.micro_batch_size * plan_.seq_length * plan_.local.vocab;
    }
    bool is_first(int stage) const { return stage == 0; }
    bool is_last(int stage) const { return stage == plan_.mesh.pipeline - 1; }
    std::int64_t microbatches() const { return plan_.microbatches(plan_.batch.global_batch_size); }
    /// s b h / t, the elements of a rank's part of the residual stream.
    std::int64_t unit() const {
        return plan_.micro_batch_size * plan_.stream_length() * plan_.model.hidden;
    }
    std::int64_t layers_of(int stage) const {
        std::int64_t layers = 0;
        for (const ChunkPart& part : chunk_parts(plan_, stage))
            layers += part.num_layers;
        return layers;
    }

    void check_pipeline() const;
    void check_messages(int stage) const;
    void check_saved(int stage) const;
    void check_bytes(int stage) const;
    void check_state() const;

    RunPlan plan_;
    ExecutedMesh mesh_;
};

/// The simulator accepts the stages' lists.
void LargeMesh::check_pipeline() const {
    CHECK_NOTHROW(simulate(make_pipeline(pipeline_of(plan_, microbatches())), flop_costs(plan_)));
}

/// Marks a message as sent (peer unknown); otherwise the stage that it comes from.
constexpr std::int64_t sent = -1;

/// A stage's ranks send and receive what the schedules of the step and of the evaluation list, in
/// this order.
void LargeMesh::check_messages(int stage) const {
    std::vector<std::int64_t> expected;
    const auto add = [&](const Schedule& schedule) {
        for (const Action& action : schedule.actions)
            if (!computes(action.kind)) expected.push_back(sends(action.kind) ? sent : action.peer);
    };
    add(make_schedule(pipeline_of(plan_, microbatches()), stage));
    add(make_forward_schedule(pipeline_of(plan_, 1), stage));

    const MeshRank& rank =
        mesh_.ranks[static_cast<std::size_t>(rank_of({.pp = stage}, plan_.mesh))];
    std::vector<std::int64_t> found;
    for (const CommList::Event& event : rank.list->events) {
        if (event.waits) continue;
        const auto communicator = static_cast<std::size_t>(event.communicator);
        const auto& operation =
            rank.list->operations[communicator][static_cast<std::size_t>(event.number)];
        if (operation.name == "send") found.push_back(sent);
        if (operation.name == "recv")
            found.push_back(place_of(rank.groups[communicator].id, plan_.mesh).pp);
    }
    CHECK(found == expected);
}

/// Saved activations: docs/memory.md, and the slots of Narayanan et al. 2021.
void LargeMesh::check_saved(int stage) const {
    const std::int64_t p = plan_.mesh.pipeline;
    const std::int64_t v = plan_.virtual_stages;
    const std::int64_t m = microbatches();
    const std::int64_t slots =
        v == 1 ? std::min(m, p - stage) : std::min(m * v, 2 * (p - 1 - stage) + (v - 1) * p + 1);
    const std::int64_t tokens = plan_.micro_batch_size * plan_.seq_length / plan_.mesh.tensor;
    const std::int64_t units = plan_.recompute == Recompute::none ? 32 : 20;
    const std::int64_t layer = units * unit() + (16 + 4 * plan_.model.heads) * tokens;
    // The input of the last norm, its statistics, and the gradient of its output, for one
    // microbatch, because its backward follows its forward immediately.
    std::int64_t head = is_last(stage) ? 4 * unit() + 8 * tokens : 0;
    // Plus the tensors that the head's deferred weight gradients read: the output of the norm, and
    // the logits'.
    if (is_last(stage)) head += plan_.deferred_heads * (2 * unit() + 2 * logits());
    const std::int64_t saved = slots * (layers_of(stage) / v * layer) + head;
    for (const RankCost& own : mesh_.classes)
        if (own.rank_class.stage == stage) CHECK(own.cost.memory[MemoryUse::saved] == saved);
}

/// Bytes allowed for the few sums of single numbers in a step.
constexpr std::int64_t numbers = 64;

void LargeMesh::check_bytes(int stage) const {
    const std::int64_t p = plan_.mesh.pipeline;
    const std::int64_t t = plan_.mesh.tensor;
    const std::int64_t d = plan_.mesh.data;
    const std::int64_t m = microbatches();
    const std::int64_t ends = is_first(stage) + is_last(stage);
    const std::int64_t hidden = plan_.model.hidden;
    // A layer gathers or scatters the stream four times forward and four times backward, and
    // gathers the inputs of its column-parallel GEMMs again. Each end of the model does so twice.
    std::int64_t tp = m * (10 * layers_of(stage) + 2 * ends) * 2 * unit() * (t - 1);
    // The head's deferred weight gradients gather their inputs again.
    if (is_last(stage)) tp += plan_.deferred_heads * 2 * unit() * (t - 1);
    // The head's maxima and sums of every token, all-reduced in fp32.
    const std::int64_t tokens = plan_.micro_batch_size * plan_.seq_length;
    if (is_last(stage)) tp += m * 2 * (3 * 4 * tokens) / t * (t - 1);
    // Chunks send to the next and to the previous one.
    const std::int64_t pp = p == 1 ? 0 : m * (2 * plan_.virtual_stages - ends) * 2 * unit();
    // Sums over the tp ranks: two norms and the biases of two row-parallel GEMMs per layer, the
    // position embedding, and the last norm. Each data rank sums what it updates.
    std::int64_t copied = 6 * hidden * layers_of(stage);
    if (is_first(stage)) copied += plan_.model.max_positions * hidden;
    if (is_last(stage)) copied += 2 * hidden;
    // The shared embedding is summed over the two ends of the model as well.
    const std::int64_t tied = p > 1 && ends > 0 ? plan_.model.vocab / t * hidden : 0;

    std::int64_t most_tp = 0;
    std::int64_t most_pp = 0;
    for (int data = 0; data < d; ++data) {
        const StepCost& own = cost({.dp = data, .pp = stage});
        most_tp += sent_bytes(Axis::tp, own, plan_.mesh) - tp;
        most_pp += sent_bytes(Axis::pp, own, plan_.mesh) - pp;
        // Gradients scattered in fp32, weights gathered in bf16, by a ring.
        const double flat = 3.0 * static_cast<double>(own.memory[MemoryUse::weights]);
        const double dp = flat * static_cast<double>(d - 1) / static_cast<double>(d);
        CHECK(static_cast<double>(sent_bytes(Axis::dp, own, plan_.mesh)) ==
              Approx(dp).margin(1024));
        CHECK(sent_bytes(Axis::cp, own, plan_.mesh) == 0);
    }
    const std::int64_t copied_bytes = 2 * 4 * copied / t * (t - 1);
    CHECK(most_tp >= copied_bytes);
    CHECK(most_tp <= copied_bytes + d * numbers);
    CHECK(most_pp >= 4 * tied);
    CHECK(most_pp <= 4 * tied + d * numbers);
}

/// Exactly one rank saves each element of the weights and the two moments.
void LargeMesh::check_state() const {
    double saved = 0;
    for (const RankCost& own : mesh_.classes) {
        saved += static_cast<double>(own.cost.memory[MemoryUse::snapshot]) *
                 static_cast<double>(own.rank_class.ranks.size());
    }
    const double state = 3.0 * 4.0 * static_cast<double>(parameter_count(plan_.model));
    CHECK(saved >= state);
    // Each tensor begins at a multiple of 256 bytes.
    CHECK(saved < 1.001 * state);
}

}  // namespace

TEST_CASE("every rank of gpt22b", "[planner]") {
    LargeMesh("gpt22b", 8).check_all();
}

TEST_CASE("every rank of gpt175b", "[planner]") {
    LargeMesh("gpt175b", 1024).check_all();
}

TEST_CASE("every rank of gpt530b", "[planner]") {
    LargeMesh("gpt530b", 2240).check_all();
}

TEST_CASE("every rank of gpt1t", "[planner]") {
    LargeMesh("gpt1t", 3072).check_all();
}
