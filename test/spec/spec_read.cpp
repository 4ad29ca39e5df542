// The specs that the reader accepts.
#include <filesystem>

#include "minimal_spec.h"

namespace gptrain::test {
namespace {

/// No key has its default value.
const std::string every_key = R"(
name: gpt2-124m
seed: 99
device: cpu                 # auto | cpu | cuda
output_dir: /runs/gpt2-124m/
model:
  num_layers: 12
  hidden_size: 768
  num_attention_heads: 12
  num_query_groups: 4
  head_dim: 96
  ffn_hidden_size: 3072
  vocab_size: 50257
  max_position_embeddings: 2048
  position_embedding: rope
  rope_theta: {full: 500000, window: 20000}
  rope_scaling: {kind: yarn, factor: 8, original_max_position_embeddings: 4096, low_freq_factor: 2,
                 high_freq_factor: 5, beta_fast: 16, beta_slow: 2, attention_factor: 1.25}
  rotary_fraction: 0.25
  unrotated_layers: [3, 7]
  sliding_window: 4096
  full_attention_layers: [5, 11]
  qk_norm: all
  attention_softcap: 50
  attention_sinks: true
  logit_softcap: 30
  norm_placement: both
  parallel_residual: one_norm
  normalization: rmsnorm
  norm_eps: 1.0e-6
  activation: swiglu
  experts:
    count: 64
    per_token: 8
    ffn_hidden_size: 768
    bias: true
    shared: {ffn_hidden_size: 1536, gate: true}
    layers: {first_dense: 1, every: 2}
    load: 1.25
    router: {score: sigmoid, normalize: false, scale: 2.5, logit_bias: true, groups: {count: 8, keep: 4}}
    balance: {bias_rate: 0.002, aux_weight: 0.01, sequence_aux_weight: 0.02, z_weight: 0.03}
    upcycling_noise: 0.05
  bias: false
  qkv_bias: true
  attention_bias: true
  norm_bias: true
  head_bias: true
  embedding_scale: 8
  embedding_norm: true
  tie_embeddings: false
  dropout: 0.1
  init_std: 0.01
adapter: {kind: lora, rank: 64, alpha: 128, dropout: 0.05, targets: [attn.k, mlp.gate]}
data:
  train: [{prefix: /data/a, weight: 2.5}, {prefix: "/data/b c"}]
  validation: [{prefix: /data/v}]
  split: 90,10
  tokenizer: /data/t.model
  num_samples: 1000
  on_change: continue
  eod_id: 2
  eod_mask_loss: true
  reset_at_eod: true
training:
  seq_length: 512
  micro_batch_size: 4
  global_batch_size: 512
  rampup: {start: 32, increment: 8, samples: 4000}
  steps: 2000
  eval_interval: 50
  eval_steps: 5
eval_tasks: {tasks: [piqa, t/arc.yaml, t/arc], interval: 40, data: /data/tasks, limit: 9, few_shot: 3}
parallel:
  tensor: 2
  sequence_parallel: true
  overlap_tensor: on
  peer: auto
  pipeline: 3
  virtual_stages: 4
  layers: [1, 2, 9]
  context: 5
  context_method: all_to_all
  data: 6
  expert: 4
  schedule: zero_bubble
  shard_optimizer: false
precision: {compute: bf16, fp8_recipe: tensor, fp8_weight_gradients: bf16, grad_reduce: bf16, main_weights: bf16}
recompute: full
deterministic: false
optimizer: {name: adamw, lr: 6.0e-4, betas: [0.8, 0.99], eps: 1e-7, weight_decay: 0.2, clip_grad: 2,
            state: 8bit}
offload: {optimizer: true, main_weights: true, activations: blocks}
lr_schedule: {kind: wsd, warmup_steps: 7, decay_steps: 900, min_lr: 1.0e-5, wsd_decay_steps: 90}
checkpoint: {interval: 20, keep_last: 4, keep_every: 100, async: false, local: /local/disk, local_interval: 5,
             memory: /dev/shm, memory_interval: 2}
faults: {hang_seconds: 60, silence_factor: 2, max_skipped_steps: 3, replica_check_interval: 8,
         replay_interval: 16, loss_spike: {factor: 4, window: 100, action: rollback}, time_limit: auto}
logging: {interval: 5, tensorboard: false, prometheus: run.prom}
)";

}  // namespace

TEST_CASE("every key of the design is read") {
    const RunSpec spec = parse_run_spec(every_key, "run.yaml");
    CHECK(spec.name == "gpt2-124m");
    CHECK(spec.seed == 99);
    CHECK(spec.device == DeviceChoice::cpu);
    CHECK(spec.output_dir == "/runs/gpt2-124m");
    const ExpertsSpec experts = {64,
                                 8,
                                 768,
                                 true,
                                 SharedExpertSpec{1536, true},
                                 {.first_dense = 1, .every = 2},
                                 1.25,
                                 {RouterScore::sigmoid, false, 2.5, true, RouterGroupsSpec{8, 4}},
                                 {0.002, 0.01, 0.02, 0.03},
                                 0.05};
    const ModelVariant variant = {PositionEmbedding::rope,
                                  5e5,
                                  2e4,
                                  RopeScaling{RopeScalingKind::yarn, 8, 4096, 2, 5, 16, 2, 1.25},
                                  0.25,
                                  {3, 7},
                                  4096,
                                  {5, 11},
                                  QkNorm::all,
                                  50,
                                  true,
                                  30,
                                  NormPlacement::both,
                                  ParallelResidual::one_norm,
                                  Normalization::rmsnorm,
                                  1e-6,
                                  Activation::swiglu,
                                  experts,
                                  false,
                                  true,
                                  8,
                                  true,
                                  false,
                                  0.1,
                                  0.01};
    const ModelSpec model = {variant, 12, 768, 12, 4, 96, 3072, 50257, 2048, true, true, true};
    CHECK(spec.model == model);
    CHECK(
        spec.adapter ==
        AdapterSpec{AdapterKind::lora, 64, 128, 0.05, {LinearName::attn_k, LinearName::mlp_gate}});
    const DataSpec data = {{{"/data/a", 2.5}, {"/data/b c", 1.0}},
                           {{"/data/v", 1.0}},
                           "90,10",
                           "/data/t.model",
                           1000,
                           OnChange::go_on,
                           2,
                           true,
                           true};
    CHECK(spec.data == data);
    CHECK(spec.training == TrainingSpec{512, 4, 512, {32, 8, 4000}, 2000, 50, 5, {}});
    CHECK(spec.eval_tasks == EvalTasksSpec{{{"piqa"},
                                            {std::filesystem::absolute("t/arc.yaml").string()},
                                            {std::filesystem::absolute("t/arc").string()}},
                                           40,
                                           "/data/tasks",
                                           9,
                                           3});
    CHECK(spec.parallel == ParallelSpec{2, true, OverlapTensor::on, PeerMessages::automatic, 3, 4,
                                        std::vector<std::int64_t>{1, 2, 9}, 5,
                                        ContextMethod::all_to_all, 6, 4, ScheduleKind::zero_bubble,
                                        Sharded::none});
    CHECK(spec.precision == PrecisionSpec{.compute = Precision::bf16,
                                          .grad_reduce = Precision::bf16,
                                          .fp8_recipe = Fp8Recipe::tensor,
                                          .fp8_weight_gradients = Precision::bf16,
                                          .main_weights = Precision::bf16});
    CHECK(spec.recompute == Recompute::full);
    CHECK(!spec.deterministic);
    CHECK(spec.optimizer ==
          OptimizerSpec{"adamw", 6e-4, {0.8, 0.99}, 1e-7, 0.2, 2, MomentFormat::eight_bit, {}});
    CHECK(spec.offload == OffloadSpec{true, true, OffloadedActivations::blocks});
    CHECK(spec.lr_schedule == LrScheduleSpec{LrKind::wsd, 7, 900, 1e-5, 90});
    CHECK(spec.checkpoint == CheckpointSpec{20, 4, 100, false, "/local/disk", 5, "/dev/shm", 2});
    CHECK(spec.faults == FaultsSpec{60, 2, 3, 8, 16, LossSpike{4, 100, LossSpike::Action::rollback},
                                    TimeLimit{true, 0}});
    CHECK(spec.logging == LoggingSpec{5, false, std::filesystem::absolute("run.prom")});
}

TEST_CASE("the former key of parallel.shard is read") {
    const auto shard = [](const std::vector<std::string>& settings) {
        return minimal(settings).parallel.shard;
    };
    CHECK(shard({}) == Sharded::optimizer);
    CHECK(shard({"parallel.shard_optimizer=true"}) == Sharded::optimizer);
    CHECK(shard({"parallel.shard_optimizer=false"}) == Sharded::none);
    CHECK(to_yaml(minimal({"parallel.shard_optimizer=false"})).find("shard_optimizer") ==
          std::string::npos);
    // The later setting replaces the earlier one, and what the file has.
    CHECK(shard({"parallel.shard_optimizer=false", "parallel.shard=weights"}) == Sharded::weights);
    CHECK(shard({"parallel.shard=weights", "parallel.shard_optimizer=false"}) == Sharded::none);
    const std::string both = "parallel={shard: none, shard_optimizer: true}";
    CHECK(usage_fault([&] { shard({both}); }).find("is the former form of parallel.shard") !=
          std::string::npos);
    const ParallelSpec groups =
        minimal({"parallel={shard: weights, shard_ranks: 8, reshard: false}"}).parallel;
    CHECK(groups.shard_ranks == 8);
    CHECK_FALSE(groups.reshard);
}

TEST_CASE("older and shorter forms of a model's keys") {
    const auto model = [](const std::string& setting) { return minimal({setting}).model; };
    CHECK(model("model.qk_norm=true").qk_norm == QkNorm::head);
    CHECK(model("model.qk_norm=false").qk_norm == QkNorm::none);
    CHECK(model("model.parallel_residual=true").parallel_residual == ParallelResidual::two_norms);
    CHECK(model("model.parallel_residual=false").parallel_residual == ParallelResidual::none);
    CHECK(model("model.rope_theta=500").rope_theta == 500);
    const ModelSpec one = model("model.rope_theta={window: 500}");
    CHECK(one.rope_theta == 10000);
    CHECK(one.window_rope_theta == 500);
    // --set adds a key to the short form.
    const ModelSpec added = minimal({"model.rope_theta=2000", "model.rope_theta.window=500"}).model;
    CHECK(added.rope_theta == 2000);
    CHECK(added.window_rope_theta == 500);
}

TEST_CASE("forms of YAML that are one and the same spec") {
    const RunSpec plain = minimal();
    SECTION("byte order mark and CRLF") {
        std::string yaml = "\xef\xbb\xbf";
        for (const char c : minimal_spec)
            yaml += c == '\n' ? std::string("\r\n") : std::string(1, c);
        CHECK(parse_run_spec(yaml, "run.yaml") == plain);
    }
    SECTION("document marks and comments") {
        CHECK(parse_run_spec("# one\n---\n" + minimal_spec + "# end\n...\n", "run.yaml") == plain);
    }
    SECTION("JSON") {
        CHECK(parse_run_spec(R"({"name": "tiny", "output_dir": "/runs/tiny", "model": {"num_layers":
            2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 512}, "data": {"train":
            [{"prefix": "/data/x"}]}, "training": {"steps": 10}})",
                             "run.yaml") == plain);
    }
    SECTION("no line end at the end") {
        CHECK(parse_run_spec(minimal_spec.substr(0, minimal_spec.size() - 1), "run.yaml") == plain);
    }
    SECTION("the words for what is left open") {
        const std::string open =
            "parallel: {layers: auto, data: auto}\nprecision: {compute: auto}\n"
            "lr_schedule: {decay_steps: auto}\nfaults: {loss_spike: none, time_limit: none}\n";
        CHECK(parse_run_spec(minimal_spec + open, "run.yaml") == plain);
    }
}

TEST_CASE("relative paths become absolute and tidy") {
    const std::filesystem::path here = std::filesystem::current_path();
    const RunSpec spec = minimal({"output_dir=runs/./a//b/../c/", "data.tokenizer=../t.model",
                                  "data.train=[{prefix: p/q}, {prefix: /}]"});
    CHECK(spec.output_dir == here / "runs/a/c");
    CHECK(spec.data.tokenizer == here.parent_path() / "t.model");
    CHECK(spec.data.train[0].prefix == here / "p/q");
    CHECK(spec.data.train[1].prefix == "/");
}

TEST_CASE("numbers are read strictly but in all their honest forms") {
    const auto lr = [](const std::string& word) {
        return minimal({text("optimizer.lr=", word)}).optimizer.lr;
    };
    CHECK(lr("6.0e-4") == 6.0e-4);
    CHECK(lr("1e-3") == 1e-3);
    CHECK(lr("1E-3") == 1e-3);
    CHECK(lr("3") == 3.0);
    CHECK(lr("0") == 0.0);
    CHECK(minimal({"seed=4294967295"}).seed == 4294967295u);
    CHECK(minimal({"faults.time_limit=3600"}).faults.time_limit == TimeLimit{false, 3600});
}

TEST_CASE("settings replace, add and are laid over in order") {
    CHECK(minimal({"training.steps=20"}).training.steps == 20);
    CHECK(minimal({"training.steps=20", "training.steps=30"}).training.steps == 30);
    CHECK(minimal({"logging.interval=5"}).logging.interval == 5);
    CHECK(minimal({"logging={interval: 5, tensorboard: false}"}).logging == LoggingSpec{5, false});
    CHECK(minimal({"parallel.layers=[3,4,5]"}).parallel.layers ==
          std::vector<std::int64_t>{3, 4, 5});
    const auto train =
        minimal({"data.train=[{prefix: /a, weight: 1}, {prefix: /b}]", "data.train.1.weight=3"})
            .data.train;
    CHECK(train == std::vector<DataSource>{{"/a", 1.0}, {"/b", 3.0}});
    SECTION("a setting heals the file") {
        CHECK(parse_run_spec(minimal_spec + "seed: x\n", "run.yaml", {"seed=5"}).seed == 5);
    }
    SECTION("settings can be the whole spec") {
        const RunSpec spec = parse_run_spec(
            "", "run.yaml",
            {"name=tiny", "output_dir=/runs/tiny", "model.num_layers=2", "model.hidden_size=64",
             "model.num_attention_heads=4", "model.vocab_size=512",
             "data.train=[{prefix: /data/x}]", "training.steps=10"});
        CHECK(spec == minimal());
    }
}

}  // namespace gptrain::test
