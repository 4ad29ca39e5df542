// How a mesh and the schedule of its stages split a model.
#include "planned_spec.h"

namespace gptrain::test {

TEST_CASE("a model that does not divide among the ranks of tp says what would") {
    const PlanTarget four = {.world_size = 4, .dry_run = true};
    const auto fault = [&](std::vector<std::string> settings) {
        settings.push_back("parallel.tensor=4");
        return contradiction(settings, four);
    };
    const ModelShape local = plan_of({"parallel.tensor=4"}, four).local;
    CHECK(local.heads == 1);
    CHECK(local.groups == 1);
    CHECK(local.vocab == 128);
    CHECK(plan_of({"parallel.tensor=4", "model.num_query_groups=2"}, four).local.groups == 1);
    CHECK(fault({"model.num_attention_heads=6", "model.hidden_size=96"}) ==
          "model.num_attention_heads 6 is not a multiple of 4, parallel.tensor; set "
          "model.num_attention_heads to 4 or 8, or change the latter");
    CHECK(fault({"model.num_attention_heads=24", "model.num_query_groups=6",
                 "model.hidden_size=96"}) ==
          "model.num_query_groups 6 and parallel.tensor 4: one must be a multiple of the other; "
          "change one of them");
    CHECK(fault({"model.ffn_hidden_size=90"}) ==
          "model.ffn_hidden_size 90 is not a multiple of 4, parallel.tensor; set "
          "model.ffn_hidden_size to 88 or 92, or change the latter");
    CHECK(fault({"model.vocab_size=6"}) ==
          "parallel.tensor 4 leaves a rank without rows of model.vocab_size 6; lower it");
    CHECK(fault({"parallel.sequence_parallel=true", "training.seq_length=90"}) ==
          "training.seq_length / parallel.context 90 is not a multiple of 4, parallel.tensor with "
          "sequence_parallel; set training.seq_length / parallel.context to 88 or 92, or change "
          "the latter");
}

TEST_CASE("ranks divide what parallel.shard names if several share it") {
    const auto plan = [](std::vector<std::string> settings, std::int64_t ranks = 4) {
        return plan_of(settings, {.world_size = ranks, .dry_run = true});
    };
    CHECK(plan({"parallel.shard=weights"}).shard == Sharded::weights);
    CHECK(plan({"parallel.shard=weights"}, 1).shard == Sharded::optimizer);
    CHECK(plan({"parallel.shard=weights", "parallel.tensor=4"}).shard == Sharded::optimizer);
    CHECK(plan({"parallel.shard=weights", "parallel.shard_ranks=1"}).shard == Sharded::none);
    CHECK(plan({}).mesh.shard == 1);
    CHECK(plan({"parallel.shard_ranks=4"}).mesh.shard == 1);
    const RunPlan groups = plan({"parallel.shard=gradients", "parallel.shard_ranks=2"});
    CHECK(groups.mesh.shard == 2);
    CHECK(describe(groups).find("gradients and optimizer among groups of 2 ranks") !=
          std::string::npos);
    // Every data rank takes part in the messages of every microbatch.
    const std::string batch = "training.global_batch_size=6";
    CHECK(plan({batch, "parallel.shard=gradients"}).microbatches(6, 3) == 2);
    CHECK(plan({batch}).microbatches(6, 3) == 1);
}

TEST_CASE("what cannot be divided says why") {
    const auto fault = [](std::vector<std::string> settings) {
        return contradiction(settings, {.world_size = 4, .dry_run = true});
    };
    CHECK(fault({"parallel.shard_ranks=3"}) ==
          "parallel.shard_ranks 3 must divide parallel.data x context = 4, and divide "
          "parallel.context 1 or be a multiple of it; change one of them");
    CHECK(fault({"parallel.shard=gradients", "parallel.schedule=zero_bubble"}) ==
          "parallel.shard gradients cannot be used with parallel.schedule zero_bubble, which "
          "computes the gradients of a layer in two actions; set the schedule to 1f1b or "
          "parallel.shard to optimizer");
    CHECK(fault({"parallel.shard=weights", "precision.frozen=int8"}) ==
          "parallel.shard weights cannot be used with precision.frozen int8, whose values every "
          "rank holds whole; set parallel.shard to gradients or remove precision.frozen");
}

TEST_CASE("linear layers that cannot be cut into pieces say why") {
    const PlanTarget four = {.world_size = 4, .dry_run = true};
    const auto settings = [](std::vector<std::string> more) {
        more.insert(more.begin(), {"parallel.tensor=4", "parallel.sequence_parallel=true",
                                   "parallel.overlap_tensor=on"});
        return more;
    };
    CHECK(plan_of(settings({}), four).tensor_pieces == 2);
    CHECK(plan_of(settings({"training.seq_length=8192"}), four).tensor_pieces == 4);
    CHECK(plan_of(settings({"training.seq_length=8192"}), four).stream_stripes() == 4);
    CHECK(plan_of(settings({"training.seq_length=8176"}), four).tensor_pieces == 2);
    CHECK(plan_of(settings({"training.seq_length=8200"}), four).tensor_pieces == 2);
    CHECK(plan_of(settings({"training.micro_batch_size=6"}), four).tensor_pieces == 2);
    CHECK(plan_of(settings({"training.micro_batch_size=6"}), four).stream_stripes() == 1);
    CHECK(plan_of(settings({"parallel.overlap_tensor=auto"}), four).tensor_pieces == 1);
    CHECK(holds(contradiction(settings({"parallel.sequence_parallel=false"}), four),
                "parallel.overlap_tensor: on needs parallel.tensor above 1 and "
                "parallel.sequence_parallel: true"));
    CHECK(holds(contradiction({"parallel.sequence_parallel=true", "parallel.overlap_tensor=on"}),
                "parallel.overlap_tensor: on needs parallel.tensor above 1 and"));
    CHECK(holds(contradiction(settings({"training.micro_batch_size=3"}), four),
                "training.micro_batch_size = 3, into halves;"));
    CHECK(holds(contradiction(settings({"training.seq_length=60"}), four), " = 15, into halves"));
    const auto in_fp8 = [&](const std::string& length) {
        return settings({"model.num_layers=3", "precision.compute=fp8", length});
    };
    CHECK(plan_of(in_fp8("training.seq_length=64"), four).tensor_pieces == 2);
    CHECK(holds(contradiction(in_fp8("training.seq_length=48"), four),
                "that in 2 pieces (parallel.overlap_tensor) is 24;"));
}

TEST_CASE("a schedule without its stages says so") {
    CHECK(contradiction({"parallel.virtual_stages=2"}) ==
          "parallel.virtual_stages 2 needs parallel.pipeline of at least 2; set it to 1");
    CHECK(contradiction({"parallel.schedule=interleaved_1f1b"}) ==
          "parallel.schedule interleaved_1f1b needs parallel.virtual_stages of at least 2 and "
          "parallel.pipeline of at least 2; set them or the schedule to 1f1b");
    CHECK(contradiction({"parallel.layers=[1]"}) ==
          "parallel.layers sums to 1, but model.num_layers is 2; make them equal");
    const auto on_two = [](const std::string& schedule, int chunks) {
        return contradiction(
            {"model.num_layers=8", "parallel.pipeline=2", "parallel.schedule=" + schedule,
             text("parallel.virtual_stages=", chunks)},
            {.world_size = 2});
    };
    CHECK(on_two("1f1b", 2) ==
          "parallel.virtual_stages 2 is invalid with parallel.schedule 1f1b; set the schedule to "
          "interleaved_1f1b");
    CHECK(holds(on_two("gpipe", 2), "is invalid with parallel.schedule gpipe;"));
    CHECK(on_two("zero_bubble", 3) ==
          "parallel.schedule zero_bubble has parallel.virtual_stages 1 or 2, not 3");
    for (const auto& [schedule, chunks] : std::vector<std::pair<std::string, int>>{
             {"1f1b", 1}, {"zero_bubble", 1}, {"zero_bubble", 2}, {"interleaved_1f1b", 4}}) {
        CAPTURE(schedule, chunks);
        CHECK(on_two(schedule, chunks) == "(accepted)");
    }
}

TEST_CASE("what cp splits must divide among its ranks") {
    const auto split = [](std::vector<std::string> settings, const std::string& method) {
        settings.insert(settings.end(),
                        {"parallel.context=2", "parallel.context_method=" + method});
        return contradiction(settings, {.world_size = 2});
    };
    // In a ring a rank has two slices, one from each half of the sequence.
    CHECK(split({"training.seq_length=1026"}, "ring") ==
          "training.seq_length 1026 is not a multiple of 4, 2 x parallel.context; set "
          "training.seq_length to 1024 or 1028, or change the latter");
    CHECK(split({"training.seq_length=1026"}, "all_to_all") == "(accepted)");
    CHECK(split({"training.seq_length=1025"}, "all_to_all") ==
          "training.seq_length 1025 is not a multiple of 2, parallel.context; set "
          "training.seq_length to 1024 or 1026, or change the latter");
    CHECK(split({"model.num_query_groups=1"}, "ring") == "(accepted)");
    CHECK(split({"model.num_query_groups=1"}, "all_to_all") ==
          "parallel.context_method all_to_all gives each rank a share of the query groups: "
          "model.num_query_groups / parallel.tensor = 1 is not a multiple of parallel.context 2; "
          "change one of them or the method to ring");
    CHECK(holds(split({"model.num_attention_heads=1"}, "all_to_all"),
                "a share of the heads: model.num_attention_heads / parallel.tensor = 1 is"));
}

TEST_CASE("ranks that are no multiple of the mesh are named") {
    CHECK(contradiction({"parallel.tensor=2"}, {.world_size = 3}) ==
          "parallel: 3 ranks (as started) is not a multiple of pipeline x context x tensor = 2; "
          "change the number of ranks or the mesh");
}

}  // namespace gptrain::test
