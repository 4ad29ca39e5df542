// The numbers that a plan derives from its spec.
#include <filesystem>

#include "planned_spec.h"
#include "spec/model_cost.h"

namespace gptrain::test {

TEST_CASE("parameter counts of published models") {
    const auto gpt2 = [](std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
        return parameter_count(
            {{}, layers, hidden, heads, heads, hidden / heads, 4 * hidden, 50257, 1024});
    };
    CHECK(gpt2(12, 768, 12) == 124'439'808);
    CHECK(gpt2(24, 1024, 16) == 354'823'168);
    CHECK(gpt2(36, 1280, 20) == 774'030'080);
    CHECK(gpt2(48, 1600, 25) == 1'557'611'200);

    const auto llama = [](std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                          std::int64_t groups, std::int64_t ffn, std::int64_t vocab) {
        ModelShape model = {{}, layers, hidden, heads, groups, hidden / heads, ffn, vocab, 4096};
        model.position_embedding = PositionEmbedding::rope;
        model.normalization = Normalization::rmsnorm;
        model.activation = Activation::swiglu;
        model.bias = model.qkv_bias = model.attention_bias = model.tie_embeddings = false;
        return parameter_count(model);
    };
    const auto qwen = [](ModelShape model, bool qkv_bias, QkNorm qk_norm) {
        model.position_embedding = PositionEmbedding::rope;
        model.normalization = Normalization::rmsnorm;
        model.activation = Activation::swiglu;
        model.bias = model.attention_bias = false;
        model.qkv_bias = qkv_bias;
        model.qk_norm = qk_norm;
        return parameter_count(model);
    };
    CHECK(llama(32, 4096, 32, 32, 11008, 32000) == 6'738'415'616);  // Llama 2 7B
    CHECK(llama(32, 4096, 32, 8, 14336, 128256) == 8'030'261'248);  // Llama 3 8B
    CHECK(llama(22, 2048, 32, 4, 5632, 32000) == 1'100'048'384);    // TinyLlama 1.1B
    CHECK(qwen({{}, 24, 896, 14, 2, 64, 4864, 151936, 32768}, true, QkNorm::none) ==
          494'032'768);  // Qwen2 0.5B
    CHECK(qwen({{}, 28, 1024, 16, 8, 128, 3072, 151936, 40960}, false, QkNorm::head) ==
          596'049'920);  // Qwen3 0.6B
}

TEST_CASE("the floating-point work of a token") {
    // 6 x 124,439,808 + 6 x 12 layers x 768 x 1024 positions
    RunPlan plan;
    plan.seq_length = 1024;
    plan.model = {{}, 12, 768, 12, 12, 64, 3072, 50257, 1024};
    CHECK(flops_per_token(plan) == 803'261'952.0);
    // 256 keys at most in all layers but one: as much as 2 x 256 - 256^2 / 1024 positions.
    plan.model.sliding_window = 256;
    plan.model.full_attention_layers = {3};
    CHECK(flops_per_token(plan) == 6.0 * (124'439'808 + 768 * (1024 + 11 * 448)));
}

TEST_CASE("the work that stands for parameters which no GEMM reads") {
    const RunPlan tied = plan_of({});
    const std::int64_t h = tied.model.hidden;
    // Biases of q, k and v, proj, fc and proj; weights and biases of norms.
    const std::int64_t layer = (3 * h + h + 4 * h + h) + 4 * h;
    const std::int64_t positions = tied.model.max_positions * h;
    const std::int64_t vectors = tied.model.layers * layer + 2 * h;
    CHECK(flops_outside_gemms(tied) == 6.0 * static_cast<double>(vectors + positions));
    // With an untied head, the embedding is only a table.
    CHECK(flops_outside_gemms(plan_of({"model.tie_embeddings=false"})) ==
          6.0 * static_cast<double>(vectors + positions + tied.model.vocab * h));
    // The gradients of frozen parameters cost nothing.
    CHECK(flops_outside_gemms(plan_of({"training.frozen=[wpe.weight]"})) ==
          6.0 * static_cast<double>(vectors) + 4.0 * static_cast<double>(positions));
    CHECK(flops_outside_gemms(plan_of({"init_from=/model", "adapter={kind: p_tuning}"})) ==
          4.0 * static_cast<double>(vectors + positions));
}

TEST_CASE("layers without a window may be listed in any order") {
    const ModelShape model = plan_of({"model.num_layers=3", "model.sliding_window=8",
                                      "model.full_attention_layers=[2,0]"})
                                 .model;
    CHECK_FALSE(model.has_window(0));
    CHECK(model.has_window(1));
    CHECK_FALSE(model.has_window(2));
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
    CHECK(plan_of({"model.hidden_size=1024"}).model.head_dim == 256);
    CHECK(plan_of({"training.global_batch_size=64",
                   "training.rampup={start: 8, increment: 8, "
                   "samples: 100}"})
              .batch.samples_of(10) == 8 + 8 + 16 + 24 + 32 + 56 + 4 * 64);
}

TEST_CASE("what computing needs of the spec's settings is in the plan") {
    const RunPlan plain = plan_of({});
    CHECK(plain.deterministic);
    CHECK(plain.async_checkpoint);
    CHECK_FALSE(plain.local_copies);
    CHECK_FALSE(plain.memory_copies);
    CHECK_FALSE(plain.scores_tasks);
    CHECK_FALSE(plain.messages_in_order);
    CHECK(plain.shard == Sharded::optimizer);
    CHECK(plan_of({}, {.cuda = true}).messages_in_order);
    const RunPlan plan = plan_of(
        {"seed=9", "deterministic=false", "recompute=full", "precision.grad_reduce=bf16",
         "optimizer={betas: [0.5, 0.75], eps: 0.125, weight_decay: 2, clip_grad: 3}",
         "parallel.shard_optimizer=false", "offload.optimizer=true",
         "checkpoint={async: false, local: /disk, memory: /dev/shm}",
         "data={train: [{prefix: /x}], eod_id: 7, eod_mask_loss: true, reset_at_eod: true}"});
    CHECK(plan.seed == 9);
    CHECK_FALSE(plan.deterministic);
    CHECK(plan.recompute == Recompute::full);
    CHECK(plan.grad_reduce == DType::bf16);
    CHECK(plan.optimizer.betas == std::array{0.5, 0.75});
    CHECK(plan.optimizer.eps == 0.125);
    CHECK(plan.optimizer.weight_decay == 2);
    CHECK(plan.optimizer.clip_grad == 3);
    CHECK(plan.shard == Sharded::none);
    CHECK(plan.offload == OffloadSpec{true, false, OffloadedActivations::off});
    CHECK_FALSE(plan.async_checkpoint);
    CHECK(plan.local_copies);
    CHECK(plan.memory_copies);
    CHECK(plan.end_of_document.id == 7);
    CHECK(plan.end_of_document.mask_loss);
    CHECK(plan.end_of_document.reset);
}

TEST_CASE("the head works on equal chunks that fit in 128 MiB, on CUDA in 1 GiB") {
    const auto chunk = [](std::int64_t vocab, const std::string& compute, std::int64_t rows,
                          bool cuda = false) {
        return plan_of({text("model.vocab_size=", vocab), text("precision.compute=", compute),
                        text("training.seq_length=", rows)},
                       {1, cuda, false})
            .head_rows;
    };
    CHECK(chunk(50257, "fp32", 4096) == 640);          // 667 fit: 7 chunks
    CHECK(chunk(50257, "bf16", 4096) == 1024);         // 1335 fit: 4 chunks
    CHECK(chunk(50257, "bf16", 65536, true) == 9472);  // 10682 fit: 7 chunks, the last of 8704
    CHECK(chunk(50257, "fp32", 667) == 384);           // 640 are the largest multiple: 2 chunks
    CHECK(chunk(512, "fp32", 1000) == 1000);
    CHECK(chunk(16'777'216, "fp32", 4096) == 128);
    CHECK(chunk(16'777'216, "fp32", 100) == 100);
    // No more than a rank's rows of a microbatch.
    CHECK(plan_of({"training.micro_batch_size=4", "training.seq_length=100"}).head_rows == 400);
    CHECK(plan_of({"parallel.context=2", "training.seq_length=100"}, {.world_size = 2}).head_rows ==
          50);
}

TEST_CASE("layers that are not listed go where the least work is, the head counted as work") {
    // A layer takes 6 x 49,984 parameters + 6 x 64 x 1024 positions = 693,120 FLOPs per token, the
    // head 384 per word of the vocabulary: 0.28 layers with 512 words, 2.5 with 4512.
    const auto layers = [](std::int64_t stages, std::int64_t count, std::int64_t vocab) {
        return plan_of({text("parallel.pipeline=", stages), text("model.num_layers=", count),
                        text("model.vocab_size=", vocab)},
                       {.world_size = stages})
            .chunk_layers;
    };
    CHECK(layers(2, 3, 512) == std::vector<std::int64_t>{2, 1});
    CHECK(layers(2, 4, 512) == std::vector<std::int64_t>{2, 2});
    CHECK(layers(2, 4, 4512) == std::vector<std::int64_t>{3, 1});
    CHECK(layers(4, 8, 4512) == std::vector<std::int64_t>{3, 2, 2, 1});
    CHECK(layers(4, 4, 4512) == std::vector<std::int64_t>{1, 1, 1, 1});
}

TEST_CASE(
    "a step leaves as many of the head's weight gradients to its end as time and memory allow") {
    const auto deferred = [](std::vector<std::string> settings, std::int64_t stages,
                             int batch = 64) {
        settings.insert(settings.end(), {text("training.global_batch_size=", batch),
                                         text("parallel.pipeline=", stages)});
        return plan_of(settings, {.world_size = stages}).deferred_heads;
    };
    SECTION("time") {
        // A layer takes 6 x 17,089 parameters + 6 x 64 x 16 positions = 108,678 FLOPs per token,
        // the head 6 x 64 x 849 = 326,016, three times as many. A gradient travels while a stage of
        // 5 layers runs backward, for two thirds of 5 layers' FLOPs: as long as 10/3 of the head's
        // weight gradients, which take one layer's FLOPs each. Three quarters of that are 2.5.
        const std::vector<std::string> settings = {
            "model.ffn_hidden_size=1", "training.seq_length=16", "model.vocab_size=849",
            "model.num_layers=6",      "parallel.layers=[5,1]",  "recompute=none"};
        CHECK(deferred(settings, 2) == 2);
    }
    SECTION("memory") {
        // A microbatch keeps 64 elements of each token and layer with full recomputation, 640 with
        // selective and 1,024 without; a deferred gradient takes 64 + 3,610. The first stage has
        // four microbatches in flight and the last one has one.
        const auto of = [&](const std::string& recompute, int batch = 64) {
            return deferred({"model.num_layers=16", "parallel.layers=[7,3,3,3]",
                             "model.vocab_size=3610", "recompute=" + recompute},
                            4, batch);
        };
        CHECK(of("full") == 0);       // 25 x 64 / 3,674 = 0.4
        CHECK(of("selective") == 4);  // 25 x 640 / 3,674 = 4.4
        CHECK(of("none") == 6);       // 25 x 1,024 / 3,674 = 6.97
        // Two microbatches in a step leave two in flight: 11 x 640 / 3,674 = 1.9.
        CHECK(of("selective", 2) == 1);
    }
    SECTION("memory of interleaved stages") {
        // Five slots against three, as large as the larger chunk: 2 x 4 x 640 / 3,674 = 1.4.
        for (const char* layers : {"[4,4,4,4]", "[2,2,6,6]"}) {
            CAPTURE(layers);
            CHECK(deferred({"model.num_layers=16", text("parallel.layers=", layers),
                            "model.vocab_size=3610", "parallel.schedule=interleaved_1f1b",
                            "parallel.virtual_stages=2"},
                           2) == 1);
        }
    }
    SECTION("activations in host memory") {
        // The first stage keeps nine more streams of 64 elements, and a gradient takes 64 + 100.
        std::vector<std::string> settings = {"model.num_layers=6", "parallel.layers=[5,1]",
                                             "model.vocab_size=100", "recompute=full"};
        CHECK(deferred(settings, 2) == 3);
        settings.emplace_back("offload.activations=blocks");
        CHECK(deferred(settings, 2) == 0);
    }
    SECTION("schedules that do not wait") {
        const std::vector<std::string> settings = {
            "model.num_layers=14", "parallel.layers=[5,3,3,3]", "model.vocab_size=3610"};
        for (const char* schedule : {"gpipe", "zero_bubble"}) {
            CAPTURE(schedule);
            std::vector<std::string> other = settings;
            other.push_back(text("parallel.schedule=", schedule));
            CHECK(deferred(other, 4) == 0);
        }
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
        // A checkpoint's spec can be planned again; a longer run gets its own warmup back.
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
    CHECK(effective.model.qkv_bias == true);
    CHECK(effective_spec(effective, make_plan(effective, {})) == effective);
}

TEST_CASE("the effective spec has what the plan learned of tokenizer and adapter") {
    const RunSpec spec = minimal({"data.tokenizer=/t.json", "init_from=/model",
                                  "adapter={kind: p_tuning}", "model.bias=false"});
    RunPlan plan = make_plan(spec, {});
    plan.end_of_document.id = 7;
    CHECK_FALSE(spec.data.reset_at_eod);
    CHECK_FALSE(plan.end_of_document.reset);
    for (const RunSpec& written : {effective_spec(spec, plan), restart_spec(spec, plan)}) {
        CHECK(written.data.eod_id == 7);
        CHECK(written.data.reset_at_eod == false);
        CHECK(written.adapter->encoder_hidden_size == 64);
        CHECK(written.model.qkv_bias == false);
    }
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
        if (entry.is_directory()) continue;  // hardware profiles
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
    CHECK(holds(words, "512 sequences of 1,024 tokens, in 8 x 64 on each data rank"));
    CHECK(holds(describe(make_plan(spec, {.world_size = 3})),
                "512 sequences of 1,024 tokens, in 3 x 64 on 2 data ranks, 2 x 64 on 1"));
    CHECK(holds(words, "524,288,000 tokens"));
    CHECK_FALSE(holds(words, "epochs"));
    CHECK(holds(describe(make_plan(spec, {}), 262'144'000),
                "epochs         2.00 of 262,144,000 training tokens"));
    CHECK(holds(words, "803 MFLOP per token, 421 PFLOP in total"));
}

TEST_CASE("the plan in words has the numbers of its schedules and of what is frozen") {
    const std::string words = describe(plan_of(
        {"training.global_batch_size=64", "training.rampup={start: 8, increment: 4, samples: 100}",
         "lr_schedule={warmup_steps: 3, min_lr: 1.0e-5}", "training.frozen=[wpe.weight]"}));
    INFO(words);
    CHECK(holds(words, "ramp-up        from 8 by 4 over 100 samples\n"));
    CHECK(holds(words, "learning rate  6e-04, cosine, warm-up of 3 steps, to 1e-05 at step 10\n"));
    // 512 words and two layers of 49,984 parameters each, and a norm.
    CHECK(holds(words, "trained        132,864 parameters; 65,536 are frozen\n"));
    CHECK(holds(describe(plan_of({"lr_schedule={kind: wsd, wsd_decay_steps: 4}"})),
                "learning rate  6e-04, wsd, to 0 at step 10 over 4 steps\n"));
    CHECK(holds(describe(plan_of({"training.micro_batch_size=2", "training.global_batch_size=14"},
                                 {.world_size = 4})),
                "in 2 x 2 on 3 data ranks, 1 x 2 on 1\n"));
}

}  // namespace gptrain::test
