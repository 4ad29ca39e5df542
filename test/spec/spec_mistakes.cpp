// Each mistake in a spec is named with its exact place.
#include "minimal_spec.h"

namespace gptrain::test {
namespace {

std::string mistake(const std::string& yaml) {
    return usage_fault([&] { parse_run_spec(yaml, "run.yaml"); });
}

std::string mistake_in(const std::string& appended) {
    return mistake(minimal_spec + appended);
}

std::string setting_mistake(const std::string& setting) {
    return usage_fault([&] { minimal({setting}); });
}

const std::vector<std::string> outside_range = {
    "model.num_layers=0",
    "model.num_layers=100001",
    "model.hidden_size=0",
    "model.hidden_size=1048577",
    "model.num_attention_heads=0",
    "model.num_query_groups=0",
    "model.head_dim=0",
    "model.head_dim=257",
    "model.ffn_hidden_size=0",
    "model.vocab_size=0",
    "model.vocab_size=16777217",
    "model.max_position_embeddings=0",
    "model.rope_theta=0",
    "model.rope_scaling={kind: linear, factor: 0.5}",
    "model.sliding_window=0",
    "model.full_attention_layers=[-1]",
    "model.rope_theta={window: 0}",
    "model.rotary_fraction=0",
    "model.rotary_fraction=1.1",
    "model.unrotated_layers=[-1]",
    "model.qk_norm=heads",
    "model.attention_softcap=0",
    "model.logit_softcap=-1",
    "model.parallel_residual=two",
    "model.embedding_scale=0",
    "model.norm_eps=0",
    "model.dropout=1",
    "model.dropout=-0.1",
    "model.init_std=-1",
    "objective={kind: causal}",
    "objective={kind: mlm, mask_rate: 0}",
    "objective={kind: mlm, mask_rate: 1}",
    "objective={kind: mlm, masking: word}",
    "objective={kind: mlm, mask_id: -1}",
    "objective={kind: mlm, mask_share: 1.1}",
    "objective={kind: mlm, random_share: -0.1}",
    "objective={kind: mlm, geometric_p: 0}",
    "objective={kind: mlm, max_span: 0}",
    "data.train.0.weight=0",
    "data.train.0.weight=-1",
    "data.split=",
    "data.split=0,0,0",
    "data.split=1,2,3,4",
    "data.split=-1,2",
    "data.split=1,,2",
    "data.split=1e3,2",
    "data.split=[969,30,1]",
    "data.num_samples=0",
    "data.eod_id=-1",
    "training.seq_length=0",
    "training.seq_length=16777217",
    "training.micro_batch_size=0",
    "training.global_batch_size=0",
    "training.rampup.start=0",
    "training.rampup.increment=0",
    "training.rampup.samples=-1",
    "training.steps=0",
    "training.eval_interval=-1",
    "training.eval_steps=-1",
    "training.frozen=wte.weight",
    "training.frozen=[\"\"]",
    "parallel.tensor=0",
    "parallel.pipeline=0",
    "parallel.virtual_stages=0",
    "parallel.context=0",
    "parallel.data=0",
    "parallel.layers=[]",
    "parallel.layers=[-1]",
    "parallel.layers=[0, 2]",
    "optimizer.lr=-1",
    "optimizer.betas=[-0.1,0.9]",
    "optimizer.eps=0",
    "optimizer.weight_decay=-1",
    "optimizer.clip_grad=-1",
    "optimizer.name=sgd",
    "lr_schedule.warmup_steps=-1",
    "lr_schedule.decay_steps=0",
    "lr_schedule.min_lr=-1",
    "lr_schedule.wsd_decay_steps=-1",
    "checkpoint.interval=-1",
    "checkpoint.keep_last=1",
    "checkpoint.keep_every=-1",
    "checkpoint.local_interval=0",
    "checkpoint.memory_interval=0",
    "faults.hang_seconds=-1",
    "faults.max_skipped_steps=-1",
    "faults.replica_check_interval=-1",
    "faults.replay_interval=-1",
    "faults.loss_spike=[]",
    "faults.time_limit=0",
    "logging.interval=0",
    "fault_injection.faults=[]",
    "name=''",
    "output_dir=''",
};

const std::vector<std::string> inside_range = {
    "model.num_layers=1",       "model.dropout=0",       "model.init_std=0",
    "data.validation=[]",       "data.split=1",          "data.split=0.5,0.5",
    "training.eval_interval=0", "training.eval_steps=0", "optimizer.lr=0",
    "optimizer.betas=[0,0]",    "optimizer.clip_grad=0", "checkpoint.interval=0",
    "checkpoint.keep_last=2",   "logging.interval=1",    "faults.hang_seconds=0",
};

}  // namespace

TEST_CASE("a mistake in a key is named with its place and the nearest key") {
    CHECK(mistake_in("sed: 1\n") == "run.yaml:7:1: sed: unknown key; nearest: seed");
    CHECK(mistake_in("logging:\n  intervall: 1\n") ==
          "run.yaml:8:3: logging.intervall: unknown key; nearest: logging.interval");
    CHECK(mistake_in("logging: {interval: 1, tensorbord: true}\n") ==
          "run.yaml:7:24: logging.tensorbord: unknown key; nearest: logging.tensorboard");
    CHECK(mistake_in("lr: 1.0\n") == "run.yaml:7:1: lr: unknown key; nearest: optimizer.lr");
    CHECK(mistake_in("logging: {wandb: true}\n") ==
          "run.yaml:7:11: logging.wandb: unknown key; known here: interval, tensorboard or "
          "prometheus");
    CHECK(mistake_in("seed: 1\nseed: 1\n") ==
          "run.yaml:8:1: seed: duplicate key; remove one of the two");
    // A key of an optional section.
    CHECK(mistake_in("virtual_tokens: 4\n") ==
          "run.yaml:7:1: virtual_tokens: unknown key; nearest: adapter.virtual_tokens");
    // A misspelt required key is reported as such, not as missing.
    CHECK(mistake("name: x\noutput_dir: y\nmodel:\n  num_layrs: 2\n") ==
          "run.yaml:4:3: model.num_layrs: unknown key; nearest: model.num_layers");
}

TEST_CASE("each required key is asked for at its section") {
    const auto without = [](const std::string& words) {
        std::string yaml = minimal_spec;
        yaml.erase(yaml.find(words), words.size());
        return mistake(yaml);
    };
    CHECK(without("name: tiny\n") == "run.yaml:1:1: name: missing key");
    CHECK(without("output_dir: /runs/tiny\n") == "run.yaml:1:1: output_dir: missing key");
    CHECK(without("num_layers: 2, ") == "run.yaml:3:8: model.num_layers: missing key");
    CHECK(without("hidden_size: 64, ") == "run.yaml:3:8: model.hidden_size: missing key");
    CHECK(without("num_attention_heads: 4, ") ==
          "run.yaml:3:8: model.num_attention_heads: missing key");
    CHECK(without(", vocab_size: 512") == "run.yaml:3:8: model.vocab_size: missing key");
    CHECK(without("prefix: /data/x") == "run.yaml:5:11: data.train.0.prefix: missing key");
    CHECK(without("data:\n  train: [{prefix: /data/x}]\n") ==
          "run.yaml:1:1: data.train: missing key");
    CHECK(without("training: {steps: 10}\n") == "run.yaml:1:1: training.steps: missing key");
    CHECK(mistake("") == "run.yaml:1:1: name: missing key");
}

TEST_CASE("a wrong value is named with its place, itself and what is right") {
    CHECK(mistake_in("seed: -1\n") ==
          "run.yaml:7:7: seed: found -1, must be an integer from 0 to 4294967295");
    CHECK(mistake_in("seed: \"1\"\n") ==
          "run.yaml:7:7: seed: found \"1\" in quotes, must be an integer from 0 to 4294967295; "
          "remove "
          "the quotes");
    CHECK(mistake_in("training:\n") ==
          "run.yaml:7:1: training: duplicate key; remove one of the two");
    CHECK(mistake_in("logging:\n") ==
          "run.yaml:7:1: logging: found nothing, must be a section of `key: value`");
    CHECK(mistake_in("device: gpu\n") ==
          "run.yaml:7:9: device: found gpu, must be auto, cpu or cuda; nearest: cuda");
    CHECK(mistake_in("recompute: sometimes\n") ==
          "run.yaml:7:12: recompute: found sometimes, must be none, selective or full");
    CHECK(mistake_in("precision: {grad_reduce: fp16}\n") ==
          "run.yaml:7:26: precision.grad_reduce: found fp16, must be fp32 or bf16; nearest: fp32");
    CHECK(mistake_in("optimizer:\n  betas: [0.9, 1.0]\n") ==
          "run.yaml:8:16: optimizer.betas.1: found 1.0, must be a number from 0 up to but "
          "not including 1");
    CHECK(mistake_in("optimizer:\n  betas: [0.9]\n") ==
          "run.yaml:8:10: optimizer.betas: found a list of 1, must be a list of 2 values");
}

TEST_CASE("a word that leaves a key open is among what is allowed") {
    CHECK(
        mistake_in("faults: {time_limit: soon}\n") ==
        "run.yaml:7:22: faults.time_limit: found soon, must be none, auto or an integer from 1 to "
        "1000000000 (seconds); write plain decimal digits");
    CHECK(mistake_in("faults: {time_limit: 0}\n") ==
          "run.yaml:7:22: faults.time_limit: found 0, must be none, auto or an integer from 1 to "
          "1000000000 (seconds)");
    CHECK(setting_mistake("faults.loss_spike=skip") ==
          "--set faults.loss_spike: found skip, must be none or a section of `key: value`");
    CHECK(setting_mistake("precision.compute=float16") ==
          "--set precision.compute: found float16, must be auto, fp32, bf16, fp16 or fp8; nearest: "
          "fp16");
    CHECK(setting_mistake("precision.compute=autp") ==
          "--set precision.compute: found autp, must be auto, fp32, bf16, fp16 or fp8; nearest: "
          "auto");
    CHECK(setting_mistake("precision.grad_reduce=half") ==
          "--set precision.grad_reduce: found half, must be fp32 or bf16");
    CHECK(setting_mistake("data.num_samples=none") ==
          "--set data.num_samples: found none, must be auto or an integer from 1 to 1099511627776; "
          "write plain decimal digits");
    CHECK(setting_mistake("parallel.layers=2") ==
          "--set parallel.layers: found 2, must be auto or a list of 1 to 100000 values");
    CHECK(setting_mistake("data.tokenizer=''") ==
          "--set data.tokenizer: found \"\" in quotes, must be none or a path in UTF-8, without "
          "control characters");
}

TEST_CASE("a source that is only a path is shown how to write one") {
    CHECK(setting_mistake("data.train=[data/x]") ==
          "--set data.train.0: found data/x, must be a section of `key: value`; write a source as "
          "{prefix: PATH}");
    CHECK(setting_mistake("data.validation=data/x") ==
          "--set data.validation: found data/x, must be a list of at most 10000 values; write a "
          "source as {prefix: PATH}");
}

TEST_CASE("the range of each key ends where it must") {
    for (const std::string& setting : outside_range) {
        CAPTURE(setting);
        const std::string key = setting.substr(0, setting.find('='));
        CHECK(setting_mistake(setting).starts_with(text("--set ", key)));
    }
    for (const std::string& setting : inside_range) {
        CAPTURE(setting);
        CHECK_NOTHROW(minimal({setting}));
    }
}

TEST_CASE("a file that is far too large for a run spec is refused at once") {
    const std::string comment = "# " + std::string(1 << 20, 'x') + "\n";
    CHECK(mistake(comment + minimal_spec) == "run.yaml: a run spec has at most 1.00 MiB");
}

TEST_CASE("a path that only a shell would expand is refused") {
    CHECK(setting_mistake("output_dir=~/r")
              .starts_with("--set output_dir: found ~/r; `~` is not expanded; write "));
    CHECK(setting_mistake("output_dir=\"~\"").starts_with("--set output_dir: found ~; "));
    for (const std::string variable : {"${SCRATCH}", "$SCRATCH", "${"}) {
        for (const char* key : {"output_dir", "data.tokenizer", "init_from"}) {
            CAPTURE(variable, key);
            CHECK(setting_mistake(text(key, "=/nowhere/", variable, "/r")) ==
                  text("--set ", key, ": found /nowhere/", variable, "/r; ", variable,
                       " is not expanded; write the path that it stands for"));
        }
    }
    CHECK(minimal({"output_dir=/nowhere/a$/$b/c$1"}).output_dir == "/nowhere/a$/$b/c$1");
    CHECK(minimal({"output_dir=/a/~/r"}).output_dir == "/a/~/r");
    CHECK(minimal({"output_dir=/a~b"}).output_dir == "/a~b");
}

TEST_CASE("a mistake in a setting names the setting") {
    CHECK(setting_mistake("model.num_layrs=3") ==
          "--set model.num_layrs: unknown key; nearest: model.num_layers");
    CHECK(setting_mistake("modle.num_layers=3") == "--set modle: unknown key; nearest: model");
    CHECK(setting_mistake("data.train=[{prefx: x}]") ==
          "--set data.train.0.prefx: unknown key; nearest: data.train.0.prefix");
    CHECK(setting_mistake("data.train.1.weight=1") ==
          "--set data.train.1.weight: 1 is not an index below 1, the length of the list");
    CHECK(setting_mistake("optimizer.betas.1=0.99") ==
          "--set optimizer.betas.1: there is no list to change; give the whole list");
    CHECK(setting_mistake("training.steps.x=1") ==
          "--set training.steps.x: x is not inside a section; found 10");
    CHECK(
        setting_mistake("training.steps=1_0") ==
        "--set training.steps: found 1_0, must be an integer from 1 to 1099511627776; write plain "
        "decimal digits");
    CHECK(setting_mistake("training.steps=") ==
          "--set training.steps: found nothing, must be an integer from 1 to 1099511627776");
    CHECK(setting_mistake("parallel.layers=[1,2") ==
          "--set parallel.layers: not valid YAML: this [ is not closed");
    CHECK(setting_mistake("seed=&a 1") == "--set seed: anchors are not allowed");
    CHECK(setting_mistake("faults.loss_spike={factor: 2, window: 5}") ==
          "--set faults.loss_spike.action: missing key");
    CHECK(setting_mistake("training.=1") == "--set training.: an empty part in the key's path");
    CHECK(setting_mistake("steps") == "--set steps: write key.path=value");
    CHECK(setting_mistake("=1") == "--set =1: write key.path=value");
    CHECK(setting_mistake("a\nb=1") == "--set a b=1: write key.path=value");
    CHECK(setting_mistake(std::string(100'000, '.') + "=1").size() < 100);
    // A key missing from a section made by a setting is missing in the file.
    CHECK(usage_fault([] {
              parse_run_spec("name: x\noutput_dir: y\n", "run.yaml", {"model.bias=true"});
          }) == "run.yaml:1:1: model.num_layers: missing key");
}

}  // namespace gptrain::test
