// Derived numbers and the contradictions between keys.
#include <filesystem>

#include "minimal_spec.h"
#include "spec/make_plan.h"

namespace gptrain::test {
namespace {

std::string contradiction(const std::vector<std::string>& settings, const PlanTarget& target = {}) {
    RunSpec spec = minimal(settings);
    spec.places = {};
    return usage_fault([&] { make_plan(spec, target); });
}

RunPlan plan_of(const std::vector<std::string>& settings, const PlanTarget& target = {}) {
    return make_plan(minimal(settings), target);
}

bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("parameter counts of published models") {
    const auto gpt2 = [](std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
        return parameter_count(
            {layers, hidden, heads, heads, hidden / heads, 4 * hidden, 50257, 1024});
    };
    CHECK(gpt2(12, 768, 12) == 124'439'808);
    CHECK(gpt2(24, 1024, 16) == 354'823'168);
    CHECK(gpt2(36, 1280, 20) == 774'030'080);
    CHECK(gpt2(48, 1600, 25) == 1'557'611'200);

    const auto llama = [](std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                          std::int64_t groups, std::int64_t ffn, std::int64_t vocab) {
        ModelShape model = {layers, hidden, heads, groups, hidden / heads, ffn, vocab, 4096};
        model.position_embedding = PositionEmbedding::rope;
        model.normalization = Normalization::rmsnorm;
        model.activation = Activation::swiglu;
        model.bias = model.tie_embeddings = false;
        return parameter_count(model);
    };
    CHECK(llama(32, 4096, 32, 32, 11008, 32000) == 6'738'415'616);  // Llama 2 7B
    CHECK(llama(32, 4096, 32, 8, 14336, 128256) == 8'030'261'248);  // Llama 3 8B
    CHECK(llama(22, 2048, 32, 4, 5632, 32000) == 1'100'048'384);    // TinyLlama 1.1B
}

TEST_CASE("the floating-point work of a token") {
    // 6 x 124,439,808 + 6 x 12 layers x 768 x 1024 positions
    CHECK(flops_per_token({12, 768, 12, 12, 64, 3072, 50257, 1024}, 1024) == 803'261'952.0);
}

TEST_CASE("open values follow from the others") {
    const RunPlan plan = plan_of({"training.micro_batch_size=4", "training.seq_length=128"});
    CHECK(plan.model.groups == 4);
    CHECK(plan.model.head_dim == 16);
    CHECK(plan.model.ffn == 256);
    CHECK(plan.model.max_positions == 128);
    CHECK(plan.mesh.size() == 1);
    CHECK(plan.compute == DType::f32);
    CHECK(plan.grad_reduce == DType::f32);
    CHECK(plan.batch.global_batch_size == 4);
    CHECK(plan.microbatches(12) == 3);
    CHECK(plan.lr.decay_steps == 10);
    CHECK_FALSE(plan.num_samples);
    CHECK(plan_of({}, {1, true, false}).compute == DType::bf16);
    CHECK(plan_of({"precision.compute=fp16"}, {1, true, false}).compute == DType::f16);
    CHECK(plan_of({"data.num_samples=7"}).num_samples == 7);
    CHECK(plan_of({"model.head_dim=20"}).model.head_dim == 20);
    CHECK(plan_of({"training.global_batch_size=64",
                   "training.rampup={start: 8, increment: 8, "
                   "samples: 100}"})
              .batch.samples_of(10) == 8 + 8 + 16 + 24 + 32 + 56 + 4 * 64);
}

TEST_CASE("the head works on as many rows as fit in 128 MiB, on CUDA in 1 GiB") {
    const auto chunk = [](std::int64_t vocab, const std::string& compute, std::int64_t rows,
                          bool cuda = false) {
        return plan_of({text("model.vocab_size=", vocab), text("precision.compute=", compute),
                        text("training.seq_length=", rows)},
                       {1, cuda, false})
            .head_chunk;
    };
    CHECK(chunk(50257, "fp32", 4096) == 640);           // 667 fit
    CHECK(chunk(50257, "bf16", 4096) == 1280);          // 1335 fit
    CHECK(chunk(50257, "bf16", 65536, true) == 10624);  // 10682 fit
    CHECK(chunk(512, "fp32", 1000) == 1000);
    CHECK(chunk(16'777'216, "fp32", 4096) == 128);
    CHECK(chunk(16'777'216, "fp32", 100) == 100);
}

TEST_CASE("layers that are not listed go where the least work is, the head counted as work") {
    // A layer takes 6 x 49,984 parameters + 6 x 64 x 1024 positions = 693,120 FLOPs a token, the
    // head 384 for each word: 0.28 layers with 512 of them, 2.5 with 4512.
    const auto layers = [](std::int64_t stages, std::int64_t count, std::int64_t vocab) {
        return plan_of({text("parallel.pipeline=", stages), text("model.num_layers=", count),
                        text("model.vocab_size=", vocab)},
                       {.world_size = stages})
            .layers;
    };
    CHECK(layers(2, 3, 512) == std::vector<std::int64_t>{2, 1});
    CHECK(layers(2, 4, 512) == std::vector<std::int64_t>{2, 2});
    CHECK(layers(2, 4, 4512) == std::vector<std::int64_t>{3, 1});
    CHECK(layers(4, 8, 4512) == std::vector<std::int64_t>{3, 2, 2, 1});
    CHECK(layers(4, 4, 4512) == std::vector<std::int64_t>{1, 1, 1, 1});
}

TEST_CASE("fp8 needs blocks between the first and the last, and multiples of 16") {
    const std::vector<std::string> fits = {"precision.compute=fp8", "model.num_layers=4",
                                           "model.hidden_size=64", "model.num_attention_heads=4",
                                           "training.seq_length=32"};
    const RunPlan plan = plan_of(fits);
    CHECK(plan.fp8);
    CHECK(plan.compute == DType::bf16);
    const auto fault = [&](const std::string& setting) {
        std::vector<std::string> settings = fits;
        settings.push_back(setting);
        return contradiction(settings);
    };
    CHECK(fault("model.num_layers=2") ==
          "precision.compute: fp8 is used in all blocks except the first and the last, "
          "but model.num_layers is 2; set it to bf16");
    CHECK(fault("model.ffn_hidden_size=72") ==
          "precision.compute: fp8 needs sizes that are multiples of 16, but model.ffn_hidden_size "
          "is 72; change it or set precision.compute to bf16");
    CHECK(fault("training.seq_length=31") ==
          "precision.compute: fp8 needs sizes that are multiples of 16, but "
          "training.micro_batch_size x seq_length is 31; change it or set precision.compute to "
          "bf16");
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
    // The key at fault is not written: the section is, or else the file.
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
          "training.global_batch_size 30 is not a multiple of 4, training.micro_batch_size 4 x 1 "
          "data "
          "rank; set training.global_batch_size to 28 or 32, or change the latter");
    CHECK(
        contradiction({"training.micro_batch_size=4", "training.global_batch_size=2"}) ==
        "training.global_batch_size 2 is not a multiple of 4, training.micro_batch_size 4 x 1 data "
        "rank; set training.global_batch_size to 4, or change the latter");
    CHECK(contradiction({"lr_schedule={warmup_steps: 11, decay_steps: 10}"}) ==
          "lr_schedule.warmup_steps 11 is above lr_schedule.decay_steps 10; lower it or raise "
          "lr_schedule.decay_steps");
    CHECK(contradiction({"data.eod_mask_loss=true"}) ==
          "data.eod_mask_loss: true needs an end-of-document id; set data.eod_id or "
          "data.tokenizer");

    struct Case {
        std::vector<std::string> settings;
        std::string part;
    };
    const std::string rampup = "training.rampup={start: 8, increment: 8, samples: 100}";
    const std::vector<Case> cases = {
        {{"model.hidden_size=2048"}, "model.head_dim"},
        {{"model.position_embedding=rope", "model.head_dim=15"}, "even model.head_dim, not 15"},
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
        {{"lr_schedule.min_lr=1"}, "lr_schedule.min_lr 1 is above optimizer.lr 6e-04"},
        {{"lr_schedule.kind=wsd"}, "lr_schedule.wsd_decay_steps 0"},
        {{"lr_schedule.wsd_decay_steps=3"}, "lr_schedule.kind cosine"},
        {{"lr_schedule={kind: wsd, warmup_steps: 5, wsd_decay_steps: 6, decay_steps: 10}"},
         "lr_schedule.wsd_decay_steps 6 is above"},
        {{"parallel.layers=[1,1]"}, "parallel.layers has 2 entries"},
        {{"parallel.layers=[3]"}, "parallel.layers sums to 3, but model.num_layers is 2"},
        {{"training.seq_length=16777216", "training.micro_batch_size=128"}, "2^31 - 1"},
        {{"training.steps=1099511627776", "training.global_batch_size=4194304"}, "2^63 - 1"},
    };
    for (const auto& [settings, part] : cases) {
        const std::string message = contradiction(settings);
        CAPTURE(part, message);
        CHECK(holds(message, part));
    }
}

TEST_CASE("a run that is too short for its warm-up or decay shortens them, and says so") {
    struct Case {
        std::string schedule;
        std::int64_t warmup;
        std::int64_t decay;
        std::string said;
    };
    const std::string reason = ", because training.steps is 10";
    const std::string warmup = "lr_schedule.warmup_steps shortened from ";
    const std::string decay = "lr_schedule.wsd_decay_steps shortened from ";
    const std::vector<Case> cases = {
        {"{warmup_steps: 10}", 10, 0, ""},
        {"{warmup_steps: 11}", 10, 0, warmup + "11 to 10" + reason},
        {"{kind: constant, warmup_steps: 20}", 10, 0, warmup + "20 to 10" + reason},
        {"{kind: wsd, warmup_steps: 5, wsd_decay_steps: 5}", 5, 5, ""},
        {"{kind: wsd, warmup_steps: 5, wsd_decay_steps: 6}", 5, 5, decay + "6 to 5" + reason},
        {"{kind: wsd, warmup_steps: 20, wsd_decay_steps: 80}", 9, 1,
         warmup + "20 to 9 and " + decay + "80 to 1" + reason},
        {"{warmup_steps: 7, decay_steps: 900}", 7, 0, ""},
    };
    for (const auto& [schedule, warmup_steps, decay_steps, said] : cases) {
        CAPTURE(schedule);
        const RunSpec spec = minimal({"lr_schedule=" + schedule});
        const RunPlan plan = make_plan(spec, {});
        CHECK(plan.lr.warmup_steps == warmup_steps);
        CHECK(plan.lr.wsd_decay_steps == decay_steps);
        CHECK(plan.shortening_note == said);
        CHECK(holds(describe(plan), said));
        // A checkpoint's spec is a plan again, a longer run has its own warm-up back.
        const RunPlan again = make_plan(effective_spec(spec, plan), {});
        CHECK(again.lr.warmup_steps == warmup_steps);
        CHECK(again.lr.wsd_decay_steps == decay_steps);
        CHECK(again.shortening_note.empty());
        CHECK(restart_spec(spec, plan).lr_schedule == spec.lr_schedule);
    }
    const RunPlan one = plan_of({"training.steps=1", "lr_schedule.warmup_steps=20"});
    CHECK(one.lr.warmup_steps == 1);
    CHECK(one.lr.at(1) == one.lr.lr);
    CHECK(holds(describe(one), "cosine, warm-up of 1 step\n"));
}

TEST_CASE("the fewest ranks of a mesh") {
    CHECK(min_ranks(minimal().parallel) == 1);
    CHECK(min_ranks(minimal({"parallel={tensor: 2, pipeline: 3, context: 5}"}).parallel) == 30);
    CHECK(min_ranks(minimal({"parallel={tensor: 2, data: 7}"}).parallel) == 14);
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
        {"kind: slow, step: 1", ".seconds: kind slow needs a number above 0"},
        {"kind: slow, step: 1, seconds: 1, call: 1", ".call: kind slow does not use call"},
        {"kind: no_space, step: 1", ".call: kind no_space needs the number"},
        {"kind: io_error, step: 1, calls: 3", ".call: kind io_error needs the number"},
        {"kind: short_write, step: 1, call: 1, seconds: 1",
         ".seconds: kind short_write does not use"},
    };
    for (const auto& [fault, part] : wrong) {
        const std::string message = usage_fault([&] { plan(fault); });
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

TEST_CASE("a schedule without its stages says so") {
    CHECK(contradiction({"parallel.virtual_stages=2"}) ==
          "parallel.virtual_stages 2 needs parallel.pipeline of at least 2; set it to 1");
    CHECK(contradiction({"parallel.schedule=interleaved_1f1b"}) ==
          "parallel.schedule interleaved_1f1b needs parallel.virtual_stages of at least 2 and "
          "parallel.pipeline of at least 2; set them or the schedule to 1f1b");
    CHECK(contradiction({"parallel.layers=[1]"}) ==
          "parallel.layers sums to 1, but model.num_layers is 2; make them equal");
}

TEST_CASE("the effective spec leaves open what the data alone know") {
    const RunSpec spec = minimal({"training.micro_batch_size=2", "training.global_batch_size=4"});
    const RunPlan plan = make_plan(spec, {});
    const RunSpec effective = effective_spec(spec, plan);
    CHECK(effective.model.num_query_groups == 4);
    CHECK(effective.model.head_dim == 16);
    CHECK(effective.model.ffn_hidden_size == 256);
    CHECK(effective.model.max_position_embeddings == 1024);
    CHECK_FALSE(effective.data.num_samples);
    CHECK(effective.training.global_batch_size == 4);
    CHECK(effective.parallel.data == 1);
    CHECK(effective.precision.compute == Precision::fp32);
    CHECK(effective.lr_schedule.decay_steps == 10);
    CHECK(effective_spec(effective, make_plan(effective, {})) == effective);
}

TEST_CASE("spec.yaml leaves open what a longer run or other ranks would change") {
    RunSpec spec = minimal({"training.micro_batch_size=2"});
    RunPlan plan = make_plan(spec, {});
    plan.num_samples = 77;
    const RunSpec open = restart_spec(spec, plan);
    CHECK_FALSE(open.data.num_samples);
    CHECK_FALSE(open.parallel.data);
    CHECK_FALSE(open.lr_schedule.decay_steps);
    CHECK(open.training.global_batch_size == 2);
    CHECK(open.precision.compute == Precision::fp32);
    CHECK(open.model.ffn_hidden_size == 256);
    CHECK(effective_spec(spec, plan).data.num_samples == 77);

    RunSpec longer = open;
    longer.training.steps = 30;
    CHECK(make_plan(longer, {}).lr.decay_steps == 30);

    spec = minimal({"data.num_samples=5", "parallel.data=1", "lr_schedule.decay_steps=7"});
    const RunSpec given = restart_spec(spec, make_plan(spec, {}));
    CHECK(given.data.num_samples == 5);
    CHECK(given.parallel.data == 1);
    CHECK(given.lr_schedule.decay_steps == 7);
}

TEST_CASE("the shipped specs plan, and say what they are") {
    const std::filesystem::path folder = std::filesystem::path(GPTRAIN_TEST_DATA) / "../../configs";
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        CAPTURE(entry.path().string());
        const RunSpec spec = load_run_spec(entry.path());
        CHECK(spec.name == entry.path().stem());
        const PlanTarget target = {.world_size = min_ranks(spec.parallel)};
        CHECK(holds(describe(make_plan(spec, target)), " parameters: "));
        ++count;
    }
    CHECK(count >= 3);
}

TEST_CASE("the plan in words") {
    const RunSpec spec =
        load_run_spec(std::filesystem::path(GPTRAIN_TEST_DATA) / "../../configs/gpt2-124m.yaml");
    const std::string words = describe(make_plan(spec, {}));
    INFO(words);
    CHECK(holds(words, "124,439,808 parameters: 12 layers, hidden 768, 12 heads of 64"));
    CHECK(holds(words, "512 sequences of 1,024 tokens, in 128 x 4 on each data rank"));
    CHECK(holds(words, "524,288,000 tokens"));
    CHECK_FALSE(holds(words, "epochs"));
    CHECK(holds(describe(make_plan(spec, {}), 262'144'000),
                "epochs         2.00 of 262,144,000 training tokens"));
    CHECK(holds(words, "803 MFLOP per token, 421 PFLOP in total"));
}

}  // namespace gptrain::test
