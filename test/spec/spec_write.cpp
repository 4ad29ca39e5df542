// The written form: it has all keys and defaults, and reads back as the same spec.
#include <cfloat>

#include "minimal_spec.h"
#include "spec/make_plan.h"
#include "spec/spec_json.h"
#include "spec/spec_settings.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

/// The smallest spec as written.
const std::string defaults = R"(name: tiny
seed: 1234
init_from: none
device: auto
output_dir: /runs/tiny
model:
  num_layers: 2
  hidden_size: 64
  num_attention_heads: 4
  num_query_groups: auto
  head_dim: auto
  ffn_hidden_size: auto
  vocab_size: 512
  max_position_embeddings: auto
  position_embedding: learned
  rope_theta: 10000
  rope_scaling: none
  rotary_fraction: 1
  unrotated_layers: []
  sliding_window: none
  full_attention_layers: []
  qk_norm: none
  attention_softcap: none
  attention_sinks: false
  logit_softcap: none
  norm_placement: before
  parallel_residual: none
  normalization: layernorm
  norm_eps: 1.0e-05
  activation: gelu
  experts: none
  bias: true
  qkv_bias: auto
  attention_bias: auto
  norm_bias: auto
  head_bias: false
  embedding_scale: 1
  embedding_norm: false
  tie_embeddings: true
  dropout: 0
  init_std: 0.02
objective: causal
adapter: none
data:
  train: [{prefix: /data/x, weight: 1}]
  validation: []
  split: "969,30,1"
  tokenizer: none
  num_samples: auto
  on_change: refuse
  eod_id: auto
  eod_mask_loss: false
  reset_at_eod: auto
training:
  seq_length: 1024
  micro_batch_size: 1
  global_batch_size: auto
  rampup: {start: 16, increment: 16, samples: 0}
  steps: 10
  eval_interval: 100
  eval_steps: 10
  frozen: []
eval_tasks: none
parallel:
  tensor: 1
  sequence_parallel: false
  overlap_tensor: auto
  peer: off
  pipeline: 1
  virtual_stages: 1
  layers: auto
  context: 1
  context_method: ring
  data: auto
  expert: 1
  schedule: 1f1b
  shard: optimizer
  shard_ranks: all
  reshard: true
precision:
  compute: auto
  fp8_recipe: auto
  fp8_weight_gradients: auto
  grad_reduce: fp32
  frozen: compute
  nf4_double: false
  main_weights: fp32
recompute: selective
deterministic: true
optimizer:
  name: adamw
  lr: 6.0e-04
  betas: [0.9, 0.95]
  eps: 1.0e-08
  weight_decay: 0.1
  clip_grad: 1
  state: fp32
  muon: {momentum: 0.95, nesterov: true, scale: match_rms, lr_scale: 1}
offload:
  optimizer: false
  main_weights: false
  activations: off
lr_schedule:
  kind: cosine
  warmup_steps: 0
  decay_steps: auto
  min_lr: 0
  wsd_decay_steps: 0
checkpoint:
  interval: 500
  keep_last: 3
  keep_every: 0
  async: true
  local: none
  local_interval: 50
  memory: none
  memory_interval: 10
faults:
  hang_seconds: 600
  silence_factor: 3
  max_skipped_steps: 10
  replica_check_interval: 0
  replay_interval: 0
  loss_spike: none
  time_limit: none
logging:
  interval: 10
  tensorboard: true
  prometheus: none
fault_injection: none
)";

void check_round_trip(const RunSpec& spec) {
    const std::string yaml = to_yaml(spec);
    INFO(yaml);
    const RunSpec again = parse_run_spec(yaml, "written.yaml");
    CHECK(again == spec);
    CHECK(to_yaml(again) == yaml);
    // JSON is YAML.
    CHECK(parse_run_spec(to_line(to_json(spec)), "written.json") == spec);
}

}  // namespace

TEST_CASE("the defaults are those of the design, in its order") {
    CHECK(to_yaml(minimal()) == defaults);
}

TEST_CASE("a written spec reads back as itself") {
    check_round_trip(minimal());
    check_round_trip(effective_spec(minimal(), make_plan(minimal(), {})));

    RunSpec odd = minimal();
    odd.seed = 0xffffffff;
    odd.data.train = {{"/data/with, comma", 1.0 / 3},
                      {"/data/{brace}: 'x' \"y\" \\z #", 5e-324},
                      {"/data/\xc3\xa9\xe2\x82\xac", 1e30}};
    odd.data.validation = {{"/v", 0.1}};
    odd.data.split = "90,10";
    odd.parallel.layers = {{1, 2, 3}};
    odd.optimizer.lr = 0.1 + 0.2;
    odd.optimizer.betas = {0.0, 1 - DBL_EPSILON};
    odd.faults.loss_spike = LossSpike{2.5, 3, LossSpike::Action::stop};
    odd.faults.time_limit = TimeLimit{false, 77};
    check_round_trip(odd);
    odd.fault_injection = FaultInjectionSpec{
        7,
        {{.kind = InjectedFault::Kind::short_write, .rank = 3, .step = 5, .call = 9},
         {.kind = InjectedFault::Kind::slow, .step = 1, .seconds = 0.25}}};
    odd.faults.time_limit = TimeLimit{true, 0};
    odd.model.rope_scaling = RopeScaling{RopeScalingKind::llama3, 8, 8192, 1, 4, 32, 1, {}};
    odd.model.sliding_window = 100;
    odd.model.full_attention_layers = {1};
    odd.model.qkv_bias = false;
    odd.model.window_rope_theta = 0.1 + 0.2;
    odd.model.rotary_fraction = 0.4;
    odd.model.unrotated_layers = {1, 0};
    odd.model.attention_softcap = 50;
    odd.model.logit_softcap = 1.0 / 3;
    odd.model.attention_sinks = odd.model.head_bias = odd.model.embedding_norm = true;
    odd.model.attention_bias = false;
    odd.model.norm_bias = true;
    odd.model.embedding_scale = 27.712812921102035;
    odd.eval_tasks = EvalTasksSpec{{{"piqa"}, {"/tasks/a, b.yaml"}}, 7, "/data: 1", {}, 0};
    odd.objective = MlmSpec{0.5, Masking::span, 7, 0.25, 0.125, 0.75, 3};
    odd.adapter = AdapterSpec{AdapterKind::lora, 3, 1e-3, 0.25, {LinearName::mlp_gate}};
    check_round_trip(odd);
    odd.adapter = AdapterSpec{.kind = AdapterKind::prompt,
                              .virtual_tokens = 7,
                              .init = PromptInit::vocabulary,
                              .encoder_hidden_size = 9};
    check_round_trip(odd);
}

TEST_CASE("as JSON a spec has the same keys, with the types of their values") {
    const Json json = to_json(minimal({"training.rampup.samples=7", "faults.time_limit=auto"}));
    CHECK(to_line(json["model"]) ==
          R"({"num_layers":2,"hidden_size":64,"num_attention_heads":4,"num_query_groups":"auto",)"
          R"("head_dim":"auto","ffn_hidden_size":"auto","vocab_size":512,)"
          R"("max_position_embeddings":"auto","position_embedding":"learned",)"
          R"("rope_theta":10000.0,"rope_scaling":"none","rotary_fraction":1.0,)"
          R"("unrotated_layers":[],"sliding_window":"none",)"
          R"("full_attention_layers":[],"qk_norm":"none","attention_softcap":"none",)"
          R"("attention_sinks":false,"logit_softcap":"none","norm_placement":"before",)"
          R"("parallel_residual":"none",)"
          R"("normalization":"layernorm","norm_eps":1e-05,)"
          R"("activation":"gelu","experts":"none","bias":true,"qkv_bias":"auto",)"
          R"("attention_bias":"auto","norm_bias":"auto","head_bias":false,)"
          R"("embedding_scale":1.0,"embedding_norm":false,)"
          R"("tie_embeddings":true,"dropout":0.0,"init_std":0.02})");
    CHECK(to_line(json["data"]["train"]) == R"([{"prefix":"/data/x","weight":1.0}])");
    CHECK(to_line(json["training"]["rampup"]) == R"({"start":16,"increment":16,"samples":7})");
    CHECK(to_line(json["optimizer"]["betas"]) == "[0.9,0.95]");
    CHECK(json["faults"]["time_limit"] == "auto");
    CHECK(json["seed"] == 1234);
}

TEST_CASE("names that look like something else stay text") {
    for (const std::string name :
         {"null", "NULL", "~",  "true", "12",       "1e5", "-",    "- a", "a: b", "#a",   " a ",
          "'",    "\"",   "!x", "&x",   "*x",       "@",   "%",    "[",   "a,b",  "yes",  "\\n",
          "...",  "---",  "=",  "?",    "\xc3\xa9", "<<",  ".inf", "|",   ">",    "none", "auto"}) {
        CAPTURE(name);
        RunSpec spec = minimal();
        spec.name = name;
        check_round_trip(spec);
    }
}

TEST_CASE("every word of every enumeration reads back") {
    const auto check = [](const std::string& key, const std::vector<std::string>& words) {
        for (const std::string& word : words) {
            CAPTURE(key, word);
            const RunSpec spec = minimal({text(key, "=", word)});
            CHECK(to_yaml(spec).find(text(": ", word, "\n")) != std::string::npos);
            check_round_trip(spec);
        }
    };
    check("device", {"auto", "cpu", "cuda"});
    check("objective", {"causal"});
    check("model.position_embedding", {"learned", "rope", "alibi"});
    check("model.normalization", {"layernorm", "rmsnorm"});
    check("model.activation",
          {"gelu", "gelu_erf", "swiglu", "clamped_swiglu", "geglu", "relu", "relu2"});
    check("model.qk_norm", {"none", "head", "all"});
    check("model.norm_placement", {"before", "after", "both"});
    check("model.parallel_residual", {"none", "two_norms", "one_norm"});
    check("parallel.shard", {"none", "optimizer", "gradients", "weights"});
    check("parallel.overlap_tensor", {"off", "on", "auto"});
    check("parallel.peer", {"off", "auto"});
    check("parallel.context_method", {"ring", "all_to_all"});
    check("parallel.schedule", {"gpipe", "1f1b", "interleaved_1f1b", "zero_bubble"});
    check("precision.compute", {"fp32", "bf16", "fp16", "fp8"});
    check("precision.fp8_recipe", {"auto", "tensor", "block"});
    check("precision.fp8_weight_gradients", {"bf16", "fp8"});
    check("precision.grad_reduce", {"fp32", "bf16"});
    check("precision.frozen", {"compute", "int8", "nf4"});
    check("precision.main_weights", {"fp32", "bf16"});
    check("optimizer.state", {"fp32", "bf16", "8bit"});
    check("recompute", {"none", "selective", "full"});
    check("lr_schedule.kind", {"constant", "linear", "cosine", "wsd", "inverse_sqrt"});
}

TEST_CASE("an edited spec keeps what the user wrote") {
    const TempFolder folder;
    const auto file = folder.path() / "run.yaml";
    fill(file,
         "# a comment\nname: \"12\"\ntraining:\n  steps: 10 # another\n"
         "output_dir: runs/a, b\nmodel: {num_layers: 4, hidden_size: 8,\n"
         "  num_attention_heads: 2, vocab_size: 10}\n"
         "data:\n  train:\n    - prefix: data/a b\n      weight: 1.0e-1\n  split: \"90,10\"\n");
    const RunSpec before = load_run_spec(file);
    RunSpec after = before;
    after.training.steps = 20;
    after.parallel.pipeline = 2;
    after.parallel.layers = {1, 3};
    after.recompute = Recompute::full;
    const std::string edited = edited_run_spec(file, changed_keys(before, after));
    CHECK(edited ==
          "name: \"12\"\ntraining:\n  steps: 20\noutput_dir: \"runs/a, b\"\nmodel:\n"
          "  num_layers: 4\n  hidden_size: 8\n  num_attention_heads: 2\n  vocab_size: 10\n"
          "data:\n  train: [{prefix: \"data/a b\", weight: 1.0e-1}]\n  split: \"90,10\"\n"
          "parallel:\n  pipeline: 2\n  layers: [1, 3]\nrecompute: full\n");
    CHECK(parse_run_spec(edited, "edited.yaml") == after);
    CHECK(changed_keys(before, before).empty());
    // A section that was absent, and back.
    after.init_from = "/model";
    after.adapter = AdapterSpec{.rank = 4};
    CHECK(parse_run_spec(edited_run_spec(file, changed_keys(before, after)), "e.yaml") == after);
    CHECK(changed_keys(after, before).front() == "init_from=none");
}

}  // namespace gptrain::test
