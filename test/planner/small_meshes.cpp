// Meshes with every axis and every way to use it: rank classes are right there too, and the ranks'
// messages match.
#include <set>
#include <utility>

#include "catch.h"
#include "planner/executed_mesh.h"
#include "planner/flop_costs.h"
#include "spec/make_plan.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

/// 2 data ranks, 2 stages, 2 cp ranks and 4 tp ranks, of which two share each head of k and v; a
/// vocabulary that leaves fewer rows for the last tp rank.
RunSpec small_spec() {
    RunSpec spec;
    spec.name = "small";
    spec.output_dir = "small";
    spec.model.num_layers = 4;
    spec.model.hidden_size = 64;
    spec.model.num_attention_heads = 8;
    spec.model.num_query_groups = 2;
    spec.model.vocab_size = 101;
    spec.data.train = {{"none", 1.0}};
    spec.training.seq_length = 64;
    spec.training.micro_batch_size = 2;
    spec.training.global_batch_size = 24;
    spec.training.steps = 1;
    spec.precision.compute = Precision::bf16;
    spec.parallel.tensor = 4;
    spec.parallel.pipeline = 2;
    spec.parallel.context = 2;
    return spec;
}

BackendMemory no_scratch() {
    return {.scratch = [](const OpLimits&) { return std::int64_t{0}; }};
}

void check(const RunSpec& spec, bool messages_in_order, std::int64_t ranks) {
    RunPlan plan = make_plan(spec, {.world_size = ranks, .dry_run = true});
    plan.messages_in_order = messages_in_order;
    const ExecutedMesh mesh = execute_every_rank(plan, no_scratch());
    CHECK(mesh.strangers == std::vector<std::int64_t>());
    // Some ranks represent others, but no rank represents all. Ranks that own other matrices of
    // Muon's do other work, as do data ranks with other numbers of microbatches.
    const bool by_matrix = plan.parameters.muon && plan.shard != Sharded::none;
    const std::int64_t batch = plan.batch.global_batch_size;
    const bool even = plan.microbatches(batch, plan.mesh.data - 1) == plan.microbatches(batch);
    if (!by_matrix && even) CHECK(std::ssize(mesh.classes) < ranks);
    CHECK(mesh.classes.size() >= 2);
    CHECK_NOTHROW(
        check_whole_mesh(mesh.ranks, messages_in_order ? StartRule::nccl : StartRule::mpi));
}

/// With MPI, and with messages as on CUDA.
void check(const RunSpec& spec, std::int64_t ranks = 32) {
    check(spec, false, ranks);
    check(spec, true, ranks);
}

}  // namespace

TEST_CASE("every rank of small meshes with all axes", "[planner]") {
    RunSpec spec = small_spec();
    spec.parallel.sequence_parallel = GENERATE(false, true);
    spec.parallel.shard = GENERATE(Sharded::none, Sharded::optimizer);
    spec.parallel.schedule =
        GENERATE(ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                 ScheduleKind::interleaved_one_f_one_b, ScheduleKind::zero_bubble);
    if (spec.parallel.schedule == ScheduleKind::interleaved_one_f_one_b)
        spec.parallel.virtual_stages = 2;
    SECTION("ring, tied ends, full recomputation") {
        spec.recompute = Recompute::full;
        check(spec);
    }
    SECTION("Muon") {
        spec.optimizer.name = "muon";
        spec.model.tie_embeddings = GENERATE(false, true);
        check(spec);
    }
    SECTION("ring with windows") {
        spec.model.sliding_window = 16;
        spec.model.full_attention_layers = {1};
        check(spec);
    }
    SECTION("frozen parameters") {
        spec.training.frozen = {"h.0.*", "h.1.mlp.*", "wte.weight"};
        spec.optimizer.name = GENERATE("adamw", "muon");
        check(spec);
    }
    SECTION("linear layers in pieces") {
        spec.parallel.sequence_parallel = true;
        spec.parallel.overlap_tensor = OverlapTensor::on;
        spec.training.micro_batch_size = GENERATE(1, 2);
        check(spec);
    }
    SECTION("exchange of heads, a head of its own, SwiGLU") {
        spec.parallel.context_method = ContextMethod::all_to_all;
        spec.model.num_query_groups = 8;
        spec.model.tie_embeddings = false;
        spec.model.activation = Activation::swiglu;
        check(spec);
    }
    SECTION("ZB-V, nothing recomputed, dropout") {
        spec.parallel.schedule = ScheduleKind::zero_bubble;
        spec.parallel.virtual_stages = 2;
        spec.recompute = Recompute::none;
        spec.model.dropout = 0.1;
        check(spec);
    }
}

TEST_CASE("every rank of meshes whose data ranks have different numbers of microbatches",
          "[planner]") {
    RunSpec spec = small_spec();
    spec.model.num_layers = 8;
    spec.model.tie_embeddings = GENERATE(false, true);
    spec.parallel.tensor = 2;
    spec.parallel.sequence_parallel = true;
    spec.parallel.context = 1;
    spec.parallel.pipeline = GENERATE(2, 4);
    spec.parallel.shard = GENERATE(Sharded::none, Sharded::optimizer);
    // From one data rank with two microbatches to one with less than the pipeline is deep.
    spec.training.global_batch_size = 2 * GENERATE(4, 5, 8, 10, 25);
    const auto [kind, chunks] =
        GENERATE(std::pair{ScheduleKind::gpipe, 1},  //
                 std::pair{ScheduleKind::one_f_one_b, 1},
                 std::pair{ScheduleKind::interleaved_one_f_one_b, 2},
                 std::pair{ScheduleKind::zero_bubble, 1}, std::pair{ScheduleKind::zero_bubble, 2});
    spec.parallel.schedule = kind;
    spec.parallel.virtual_stages = chunks;
    check(spec, 3 * spec.parallel.pipeline * spec.parallel.tensor);
}

TEST_CASE("no rank of a stage sees more keys than the one that is timed", "[planner]") {
    RunSpec spec = small_spec();
    spec.model.sliding_window = GENERATE(7, 16, 40);
    spec.parallel.tensor = 1;
    spec.parallel.context = 8;
    const RunPlan plan = make_plan(spec, {.world_size = 32, .dry_run = true});
    const auto seen = [&](const MeshPlace& place) {
        return measure_run(plan, place, no_scratch()).forward_and_backward.attention;
    };
    const MeshPlace timed = busiest_rank(plan, 1);
    CHECK(seen(timed) > seen({.pp = 1}));
    for (int cp = 0; cp < 8; ++cp)
        CHECK(seen({.pp = 1, .cp = cp}) <= seen(timed));
}

TEST_CASE("Muon's broadcasts take as long on every data rank", "[planner]") {
    RunSpec spec = small_spec();
    spec.optimizer.name = "muon";
    const RunPlan plan = make_plan(spec, {.world_size = 32, .dry_run = true});
    const auto broadcasts = [&](int dp) {
        const StepTrace trace = trace_step(plan, {.dp = dp}, no_scratch());
        std::multiset<std::int64_t> bytes;
        for (const TraceMessage& message : trace.messages)
            if (message.operation == "broadcast") bytes.insert(message.bytes);
        return bytes;
    };
    CHECK(*broadcasts(0).begin() > 0);
    CHECK(broadcasts(0) == broadcasts(1));
}

TEST_CASE("flop costs of a chunk are those of its own layers") {
    RunSpec spec = small_spec();
    spec.parallel.context = 1;
    spec.model.sliding_window = 8;
    const auto costs = [&](std::vector<std::int64_t> full) {
        spec.model.full_attention_layers = std::move(full);
        return flop_costs(make_plan(spec, {.world_size = 8, .dry_run = true})).chunks;
    };
    CHECK(costs({0}).front().forward > costs({}).front().forward);
    CHECK(costs({0}).back().forward == costs({}).back().forward);
}

TEST_CASE("full recomputation costs a forward wherever activations are read") {
    RunSpec spec = small_spec();
    spec.parallel.schedule = GENERATE(ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble);
    RunPlan plan = make_plan(spec, {.world_size = 32, .dry_run = true});
    const ChunkCost kept = flop_costs(plan).chunks.front();
    plan.recompute = Recompute::full;
    const ChunkCost rebuilt = flop_costs(plan).chunks.front();
    const bool apart = plan.schedule == ScheduleKind::zero_bubble;
    CHECK(rebuilt.forward == kept.forward);
    CHECK(rebuilt.backward_inputs == kept.backward_inputs + kept.forward);
    CHECK(rebuilt.backward_weights == kept.backward_weights + (apart ? kept.forward : 0));
}
