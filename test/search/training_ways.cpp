// The ways to train a model on a machine.
#include "search/training_ways.h"

#include <catch.h>

#include "cuda/needs.h"
#include "engine/measure.h"
#include "engine/memory_check.h"
#include "hardware/load_profile.h"

namespace gptrain::test {
namespace {

struct Trial {
    HardwareProfile hardware = load_profile("rtx-4090");
    BackendMemory needs = cuda::backend_memory();

    /// A model of 124M parameters with room for 2,048 positions.
    static RunSpec base() {
        RunSpec spec;
        spec.name = "tuned";
        spec.device = DeviceChoice::cuda;
        spec.init_from = "/models/tuned";
        spec.model.num_layers = 12;
        spec.model.hidden_size = 768;
        spec.model.num_attention_heads = 12;
        spec.model.vocab_size = 50257;
        spec.model.max_position_embeddings = 2048;
        spec.training.seq_length = 1024;
        spec.training.global_batch_size = 4;
        spec.training.steps = 1;
        return spec;
    }

    WayMachine machine(double capacity, double host) const {
        return {.target = {.world_size = 1, .cuda = true, .dry_run = true},
                .needs = needs,
                .hardware = hardware,
                .capacity = capacity,
                .host_capacity = host};
    }
    WayOutcome run(std::string_view way, double capacity, double host = 64e9) const {
        return try_way(*find_way(way), base(), machine(capacity, host));
    }
    /// The memory of a run with one sequence at a time and full recomputation.
    double least(RunSpec spec, std::int64_t seq_length) const {
        spec.training.seq_length = seq_length;
        spec.training.micro_batch_size = 1;
        spec.training.global_batch_size = 1;
        spec.recompute = Recompute::full;
        const WayMachine on = machine(0, 0);
        const RunPlan plan = make_plan(spec, on.target);
        return static_cast<double>(measure_memory(plan, {}, needs).on_device() + needs.reserve);
    }
};

}  // namespace

TEST_CASE("an adapter fits where all weights do not", "[training_ways]") {
    const Trial trial;
    const double capacity = trial.least(Trial::base(), 1024) - 1;
    const WayOutcome full = trial.run("full", capacity);
    CHECK_FALSE(full.fastest);
    CHECK(static_cast<double>(full.bytes) > capacity);
    CHECK(full.longest < 1024);
    const WayOutcome lora = trial.run("lora", capacity);
    REQUIRE(lora.fastest);
    CHECK(static_cast<double>(lora.bytes) <= capacity);
    CHECK(lora.spec.adapter.has_value());
}

TEST_CASE("the longest sequence is the last that fits", "[training_ways]") {
    const Trial trial;
    const double capacity = trial.least(Trial::base(), 1024);
    const WayOutcome full = trial.run("full", capacity);
    CHECK(full.longest == 1024);
    CHECK(trial.run("full", capacity - 1).longest == 1024 - sequence_step);
    // No more than the model has positions for.
    CHECK(trial.run("full", 80e9).longest == 2048);
    CHECK(trial.run("full", 1e9).longest == 0);
}

TEST_CASE("a save waits where the host has no room for its copy", "[training_ways]") {
    const Trial trial;
    const WayOutcome roomy = trial.run("full", 20e9);
    REQUIRE(roomy.fastest);
    CHECK(roomy.spec.checkpoint.async);
    const double short_of_it = static_cast<double>(roomy.host_bytes) - 1;
    const WayOutcome tight = trial.run("full", 20e9, short_of_it);
    REQUIRE(tight.fastest);
    CHECK_FALSE(tight.spec.checkpoint.async);
    CHECK(static_cast<double>(tight.host_bytes) <= short_of_it);
    CHECK_FALSE(trial.run("full", 20e9, 1e6).fastest);
    // An unknown host memory holds everything.
    CHECK(trial.run("full", 20e9, 0).spec.checkpoint.async);
}

}  // namespace gptrain::test
