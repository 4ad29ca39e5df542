// Keys that do nothing next to the others, and short forms of sections under --set.
#include "minimal_spec.h"
#include "spec/unused_keys.h"

namespace gptrain::test {
namespace {

using Warnings = std::vector<std::string>;

Warnings unused(const std::vector<std::string>& settings) {
    return unused_keys(minimal(settings));
}

}  // namespace

TEST_CASE("a key that does nothing is reported") {
    CHECK(unused({}).empty());
    CHECK(unused({"lr_schedule.kind=constant", "lr_schedule.min_lr=1e-5",
                  "lr_schedule.decay_steps=10"}) ==
          Warnings{"lr_schedule.min_lr does nothing with lr_schedule.kind constant",
                   "lr_schedule.decay_steps does nothing with lr_schedule.kind constant"});
    CHECK(unused({"lr_schedule.kind=inverse_sqrt", "lr_schedule.min_lr=1e-5"}).empty());
    CHECK(unused({"lr_schedule.kind=linear", "lr_schedule.decay_steps=10"}).empty());
    // Without it a warm-up longer than the run would be shortened.
    CHECK(unused({"lr_schedule.kind=constant", "lr_schedule.warmup_steps=11",
                  "lr_schedule.decay_steps=20"})
              .empty());
    CHECK(unused({"model.rope_theta=500"}) ==
          Warnings{"model.rope_theta does nothing without model.position_embedding rope"});
    CHECK(unused({"model.full_attention_layers=[0]"}) ==
          Warnings{"model.full_attention_layers does nothing without model.sliding_window"});
    CHECK(unused({"model.rotary_fraction=0.5", "model.unrotated_layers=[0]"}) ==
          Warnings{"model.rotary_fraction does nothing without model.position_embedding rope",
                   "model.unrotated_layers does nothing without model.position_embedding rope"});
    CHECK(unused({"model.position_embedding=rope", "model.rope_theta={window: 10}"}) ==
          Warnings{"model.rope_theta.window does nothing without model.sliding_window"});
    CHECK(unused({"model.normalization=rmsnorm", "model.norm_bias=true"}) ==
          Warnings{"model.norm_bias does nothing with model.normalization rmsnorm"});
    CHECK(unused({"training.rampup.start=2", "training.rampup.increment=2"}) ==
          Warnings{"training.rampup.start does nothing while training.rampup.samples is 0",
                   "training.rampup.increment does nothing while training.rampup.samples is 0"});
    CHECK(unused({"checkpoint.local_interval=5"}) ==
          Warnings{"checkpoint.local_interval does nothing without checkpoint.local"});
    CHECK(unused({"checkpoint.local_interval=5", "checkpoint.local=/scratch"}).empty());
    CHECK(unused({"checkpoint.memory_interval=5"}) ==
          Warnings{"checkpoint.memory_interval does nothing without checkpoint.memory"});
    CHECK(unused({"checkpoint.memory_interval=5", "checkpoint.memory=/dev/shm"}).empty());
    CHECK(unused({"parallel.peer=auto", "device=cpu"}) ==
          Warnings{"parallel.peer does nothing with device cpu"});
    CHECK(unused({"parallel.peer=auto", "device=auto"}).empty());
    CHECK(unused({"offload.main_weights=true", "precision.compute=fp32"}) ==
          Warnings{"offload.main_weights does nothing with precision.compute fp32: the weights are "
                   "in fp32"});
    CHECK(unused({"offload.main_weights=true"}).empty());
}

TEST_CASE("keys of another kind of rope scaling are reported") {
    const std::string rope = "model.position_embedding=rope";
    CHECK(unused({rope,
                  "model.rope_scaling={kind: linear, factor: 2, low_freq_factor: 2, "
                  "high_freq_factor: 5, beta_fast: 9, beta_slow: 2, attention_factor: 1, "
                  "original_max_position_embeddings: 8}"})
              .size() == 6);
    CHECK(unused({rope,
                  "model.rope_scaling={kind: llama3, factor: 2, low_freq_factor: 2, "
                  "high_freq_factor: 5, beta_fast: 9, original_max_position_embeddings: 8}"}) ==
          Warnings{"model.rope_scaling.beta_fast does nothing with kind llama3"});
    CHECK(unused({rope,
                  "model.rope_scaling={kind: yarn, factor: 2, low_freq_factor: 2, beta_fast: "
                  "9, attention_factor: 1, original_max_position_embeddings: 8}"}) ==
          Warnings{"model.rope_scaling.low_freq_factor does nothing with kind yarn"});
}

TEST_CASE("--set opens the short form of a section") {
    const RunSpec spec = minimal({"objective=mlm", "objective.mask_rate=0.2", "adapter=none",
                                  "adapter.kind=lora", "adapter.rank=4"});
    CHECK(std::get<MlmSpec>(spec.objective).mask_rate == 0.2);
    CHECK(spec.adapter->rank == 4);
    CHECK(usage_fault([] {
              minimal({"training.steps=5", "training.steps.kind=5"});
          }).find("kind is not inside a section; found 5") != std::string::npos);
}

}  // namespace gptrain::test
