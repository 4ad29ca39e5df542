// Keys that contradict each other.
#include "planned_spec.h"

namespace gptrain::test {

TEST_CASE("the root is no output directory") {
    CHECK(contradiction({"output_dir=/"}, {}) ==
          "output_dir: / cannot hold a run; name a folder in it");
    CHECK(contradiction({"output_dir=/a/.."}, {}) ==
          "output_dir: / cannot hold a run; name a folder in it");
}

TEST_CASE("a dry run counts any number of data ranks") {
    const RunPlan plan = plan_of({"training.micro_batch_size=2"}, {8, false, true});
    CHECK(plan.mesh.data == 8);
    CHECK(plan.batch.global_batch_size == 16);
    CHECK(plan_of({"parallel.data=8"}, {8, false, true}).mesh.data == 8);
    CHECK(
        contradiction({"parallel.data=4"}, {8, false, true}) ==
        "parallel: data x pipeline x context x tensor = 4, but the run has 8 ranks (--world-size); "
        "set parallel.data to auto or change the number of ranks");
    CHECK(plan_of({}, {2, false, false}).mesh.data == 2);
}

TEST_CASE("a contradiction names the place of its key") {
    const auto fault = [](const std::string& training, const std::vector<std::string>& settings) {
        const std::string yaml =
            "name: a\noutput_dir: o\ndata: {train: [{prefix: p}]}\n"
            "model: {num_layers: 1, hidden_size: 8, num_attention_heads: 2, vocab_size: 9}\n"
            "training:\n  steps: 4\n  seq_length: 8\n" +
            training;
        return usage_fault([&] { make_plan(parse_run_spec(yaml, "r.yaml", settings), {}); });
    };
    CHECK(fault("  micro_batch_size: 4\n  global_batch_size: 6\n", {})
              .starts_with("r.yaml:9:22: training.global_batch_size 6 "));
    CHECK(fault("parallel:\n  layers: [5]\n", {})
              .starts_with("r.yaml:9:11: parallel.layers sums to 5, "));
    CHECK(fault("", {"parallel.layers=[5]"})
              .starts_with("--set parallel.layers: parallel.layers sums to 5, "));
    // If the faulty key is not written, its section is named, else the file.
    CHECK(fault("", {"model.hidden_size=7"}).starts_with("--set model.hidden_size: "));
    CHECK(fault("", {"training.micro_batch_size=2", "training.global_batch_size=3"})
              .starts_with("--set training.global_batch_size: "));
    CHECK(fault("", {"data.eod_mask_loss=true"}).starts_with("--set data.eod_mask_loss: "));
}

TEST_CASE("keys that contradict each other are named with their values") {
    CHECK(
        contradiction({"model.num_attention_heads=7"}) ==
        "model.hidden_size 64 is not a multiple of model.num_attention_heads 7; change one of them "
        "or set model.head_dim");
    CHECK(contradiction({"model.num_query_groups=3"}) ==
          "model.num_attention_heads 4 is not a multiple of 3, model.num_query_groups; set "
          "model.num_attention_heads to 3 or 6, or change the latter");
    CHECK(contradiction({"training.micro_batch_size=4", "training.global_batch_size=30"}) ==
          "training.global_batch_size 30 is not a multiple of 4, training.micro_batch_size; set "
          "training.global_batch_size to 28 or 32, or change the latter");
    CHECK(contradiction({"training.micro_batch_size=4", "training.global_batch_size=2"}) ==
          "training.global_batch_size 2 is not a multiple of 4, training.micro_batch_size; set "
          "training.global_batch_size to 4, or change the latter");
    CHECK(contradiction({"training.micro_batch_size=2", "training.global_batch_size=4"},
                        {.world_size = 3}) ==
          "training.global_batch_size 4 has too few microbatches of training.micro_batch_size 2 "
          "for 3 data ranks, each of which needs one; raise it to at least 6, lower the latter, or "
          "use fewer data ranks");
    CHECK(contradiction({"lr_schedule={warmup_steps: 11, decay_steps: 10}"}) ==
          "lr_schedule.warmup_steps 11 is above lr_schedule.decay_steps 10; lower it or raise "
          "lr_schedule.decay_steps");
    CHECK(contradiction({"data.eod_mask_loss=true"}) ==
          "data.eod_mask_loss: true needs an end-of-document id; set data.eod_id or "
          "data.tokenizer");
}

struct Contradiction {
    std::vector<std::string> settings;
    std::string part;  ///< of the message
};

void check_contradictions(const std::vector<Contradiction>& cases) {
    for (const auto& [settings, part] : cases) {
        const std::string message = contradiction(settings);
        CAPTURE(part, message);
        CHECK(holds(message, part));
    }
}

TEST_CASE("keys of the model that contradict each other are named") {
    check_contradictions({
        {{"model.hidden_size=2048"}, "model.head_dim"},
        {{"model.position_embedding=rope", "model.head_dim=15"}, "even model.head_dim, not 15"},
        {{"model.rope_scaling={kind: linear, factor: 2}"}, "needs model.position_embedding rope"},
        {{"model.position_embedding=rope", "model.rope_scaling={kind: llama3, factor: 2}"},
         "model.rope_scaling.original_max_position_embeddings is missing; llama3 needs"},
        {{"model.position_embedding=rope",
          "model.rope_scaling={kind: llama3, factor: 2, original_max_position_embeddings: 8, "
          "low_freq_factor: 4}"},
         "model.rope_scaling.high_freq_factor 4 is not above low_freq_factor 4"},
        {{"model.position_embedding=rope",
          "model.rope_scaling={kind: yarn, factor: 2, original_max_position_embeddings: 8, "
          "beta_fast: 0.5}"},
         "model.rope_scaling.beta_fast 0.5 is below beta_slow 1"},
        {{"model.position_embedding=rope", "model.rope_theta=1",
          "model.rope_scaling={kind: yarn, factor: 2, original_max_position_embeddings: 8}"},
         "model.rope_theta 1 is not above 1"},
        {{"model.position_embedding=rope", "model.rope_scaling={kind: yarn, factor: 2}"},
         "model.rope_scaling.original_max_position_embeddings is missing; yarn needs"},
        {{"model.full_attention_layers=[0,2]"}, "there is no layer 2 in a model with"},
        {{"model.unrotated_layers=[2]"}, "model.unrotated_layers: there is no layer 2 in a model"},
        {{"model.position_embedding=rope", "model.rotary_fraction=0.3"},
         "model.rotary_fraction 0.3 x model.head_dim 16 = 4.8 dims, but rotations need an even"},
        {{"model.position_embedding=rope", "model.rotary_fraction=0.0625"},
         "model.rotary_fraction 0.0625 x model.head_dim 16 = 1 dims"},
        {{"model.position_embedding=alibi", "objective=mlm"},
         "model.position_embedding alibi lets a token see only earlier ones"},
        {{"model.parallel_residual=one_norm", "model.norm_placement=both"},
         "model.parallel_residual one_norm needs model.norm_placement before, not both"},
    });
}

TEST_CASE("keys of training, data and mesh that contradict each other are named") {
    const std::string rampup = "training.rampup={start: 8, increment: 8, samples: 100}";
    check_contradictions({
        {{"model.max_position_embeddings=512"},
         "training.seq_length 1024 is above model.max_position_embeddings 512"},
        {{"data.reset_at_eod=true"}, "data.reset_at_eod"},
        {{"data.eod_id=512"}, "data.eod_id 512 is not below model.vocab_size 512"},
        {{rampup, "training.micro_batch_size=16", "training.global_batch_size=64"},
         "training.rampup.start 8 is not a multiple of 16"},
        {{rampup, "training.micro_batch_size=8", "training.global_batch_size=64",
          "training.rampup.increment=4"},
         "training.rampup.increment 4 is not a multiple of 8"},
        {{rampup, "training.global_batch_size=4"}, "training.rampup.start 8 is above"},
        {{rampup, "training.global_batch_size=20"}, "training.rampup.increment 8 does not divide"},
        {{"offload.activations=blocks"},
         "offload.activations: blocks needs recompute full, but it is selective"},
        {{"offload.activations=blocks", "recompute=full", "parallel.schedule=zero_bubble"},
         "offload.activations: blocks needs parallel.schedule 1f1b with virtual_stages 1, but they "
         "are zero_bubble and 1"},
        {{"lr_schedule.min_lr=1"}, "lr_schedule.min_lr 1 is above optimizer.lr 6e-04"},
        {{"lr_schedule.kind=wsd"}, "lr_schedule.wsd_decay_steps 0"},
        {{"lr_schedule.wsd_decay_steps=3"}, "lr_schedule.kind cosine"},
        {{"lr_schedule={kind: wsd, warmup_steps: 5, wsd_decay_steps: 6, decay_steps: 10}"},
         "lr_schedule.wsd_decay_steps 6 is above"},
        {{"parallel.layers=[1,1]"}, "parallel.layers has 2 entries"},
        {{"parallel.layers=[3]"}, "parallel.layers sums to 3, but model.num_layers is 2"},
        {{"training.seq_length=16777216", "training.micro_batch_size=128"}, "2^31 - 1"},
        {{"training.steps=1099511627776", "training.global_batch_size=4194304"}, "2^63 - 1"},
    });
}

TEST_CASE("every step of a ramp-up has a microbatch for each data rank") {
    const std::vector<std::string> settings = {
        "training.micro_batch_size=4", "training.global_batch_size=64",
        "training.rampup={start: 8, increment: 8, samples: 100}"};
    CHECK(contradiction(settings, {.world_size = 2}) == "(accepted)");
    CHECK(holds(contradiction(settings, {.world_size = 3}),
                "training.rampup.start 8 has too few microbatches of training.micro_batch_size 4 "
                "for 3 data ranks, each of which needs one; raise it to at least 12"));
}

TEST_CASE("an injected fault has the keys that its kind needs and no other") {
    const PlanTarget two = {.world_size = 2, .dry_run = true};
    const auto plan = [&](const std::string& fault) {
        return make_plan(minimal({text("fault_injection={faults: [{", fault, "}]}")}), two);
    };
    const std::vector<std::pair<std::string, std::string>> wrong = {
        {"kind: kill, step: 1, rank: 2", ".rank 2 is not on the mesh, whose ranks are 0 to 1"},
        {"kind: kill, step: 11", ".step 11 is above training.steps 10"},
        {"kind: stop, step: 1, calls: 2", ".calls: kind stop does not use calls"},
        {"kind: error, step: 1, seconds: 1", ".seconds: kind error does not use seconds"},
        {"kind: nan, step: 1, call: 1", ".call: kind nan does not use call"},
        {"kind: bit_flip, step: 1, call: 1", ".call: kind bit_flip does not use call"},
        {"kind: miscompute, step: 1", ".kind miscompute happens in a microbatch that runs twice"},
        {"kind: slow, step: 1", ".seconds: kind slow needs a number above 0"},
        {"kind: slow, step: 1, seconds: 1, call: 1", ".call: kind slow does not use call"},
        {"kind: no_space, step: 1", ".call: kind no_space needs the number"},
        {"kind: io_error, step: 1, calls: 3", ".call: kind io_error needs the number"},
        {"kind: short_write, step: 1, call: 1, seconds: 1",
         ".seconds: kind short_write does not use"},
    };
    for (const auto& [fault, part] : wrong) {
        const std::string message = usage_fault([&, &fault = fault] { plan(fault); });
        CAPTURE(fault, message);
        CHECK(holds(message, "fault_injection.faults.0" + part));
    }
    for (const std::string fault :
         {"kind: kill, step: 10, rank: 1", "kind: stop, step: 1, call: 5", "kind: nan, step: 1",
          "kind: bit_flip, step: 1", "kind: error, step: 1, call: 1",
          "kind: no_space, step: 1, call: 1, calls: 1000", "kind: slow, step: 1, seconds: 0.1"}) {
        CAPTURE(fault);
        CHECK_NOTHROW(plan(fault));
    }
}

TEST_CASE("runs of a microbatch are compared only if they are deterministic") {
    const std::string replays = "faults.replay_interval=2";
    const std::string message = usage_fault([&] {
        make_plan(minimal({replays, "deterministic=false"}), {});
    });
    CAPTURE(message);
    CHECK(holds(message, "faults.replay_interval 2 compares two runs of a microbatch"));
    CHECK_NOTHROW(make_plan(minimal({"deterministic=false"}), {}));
    CHECK_NOTHROW(make_plan(
        minimal({replays, "fault_injection={faults: [{kind: miscompute, step: 1}]}"}), {}));
}

TEST_CASE("an injected NaN is not overwritten") {
    const auto overwrites = [](const std::string& faults) {
        return make_plan(minimal({text("fault_injection=", faults)}), {}).overwrites_gradients;
    };
    CHECK(overwrites("none"));
    CHECK(overwrites("{faults: [{kind: kill, step: 1}]}"));
    CHECK_FALSE(overwrites("{faults: [{kind: kill, step: 1}, {kind: nan, step: 1}]}"));
}

TEST_CASE("a contradiction inside a list is named with its place there") {
    const std::string list = minimal_spec +
                             "fault_injection:\n"
                             "  faults:\n"
                             "    - {kind: nan, step: 1}\n"
                             "    - {kind: nan, step: 1, call: 2}\n";
    const RunSpec spec = parse_run_spec(list, "run.yaml");
    CHECK(holds(usage_fault([&] { make_plan(spec, {}); }),
                "run.yaml:10:34: fault_injection.faults.1.call: kind nan"));
    const RunSpec set = minimal({"fault_injection={faults: [{kind: slow, step: 1}]}"});
    CHECK(holds(usage_fault([&] { make_plan(set, {}); }),
                "--set fault_injection.faults.0: fault_injection.faults.0.seconds: kind slow"));
}

TEST_CASE("what is allowed next to a contradiction") {
    const std::vector<std::vector<std::string>> cases = {
        {"data.eod_mask_loss=true", "data.eod_id=2"},
        {"data.reset_at_eod=true", "data.tokenizer=/t.model"},
        {"parallel.layers=[2]"},
        {"lr_schedule={kind: wsd, warmup_steps: 5, wsd_decay_steps: 5}"},
        {"lr_schedule.warmup_steps=10"},
        {"training.rampup={start: 16, increment: 5, samples: 0}"},  // off: nothing to divide
        {"parallel.schedule=zero_bubble"},
        {"parallel.schedule=gpipe"},
        {"parallel.context_method=all_to_all"},
        {"precision.grad_reduce=bf16"},
        {"faults.time_limit=auto"},
        {"fault_injection=none"},
    };
    for (const auto& settings : cases) {
        CAPTURE(settings);
        CHECK_NOTHROW(make_plan(minimal(settings), {}));
    }
}

}  // namespace gptrain::test
