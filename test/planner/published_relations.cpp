// Relations between training runs that Narayanan et al. 2021 show in figures.
#include "catch.h"
#include "planner/megatron.h"

namespace gptrain::test {
namespace {

/// Their 175B model, with so many pipeline stages on nodes of 8 GPUs.
PublishedRun gpt175b(std::int64_t stages, std::int64_t virtual_stages, std::int64_t global_batch) {
    return {.source = "narayanan-2021",
            .model = "GPT-175B",
            .gpus = 8 * stages,
            .mesh = {.pipeline = stages, .tensor = 8},
            .virtual_stages = virtual_stages,
            .layers = 96,
            .hidden = 12288,
            .heads = 96,
            .sequence = 2048,
            .vocab = 51200,
            .micro_batch = 1,
            .global_batch = global_batch,
            .recompute = Recompute::full};
}

double seconds(const PublishedRun& run) {
    return published_step(run, hardware_of(run)).seconds;
}

}  // namespace

// Figure 12: more than 10 % at 12 sequences, and the gap closes as the batch grows.
TEST_CASE("interleaving helps small batches of 175B on 96 GPUs") {
    double last_gain = 1;
    for (const std::int64_t batch : {12, 24, 60}) {
        CAPTURE(batch);
        const double gain = seconds(gpt175b(12, 1, batch)) / seconds(gpt175b(12, 2, batch)) - 1;
        if (batch == 12) CHECK(gain > 0.1);
        CHECK(gain > 0.03);
        CHECK(gain < last_gain);
        last_gain = gain;
    }
    CHECK(last_gain < 0.1);
}

// Figure 18: up to 11 %, with interleaving, which sends the most.
TEST_CASE("scattering what stages send saves some percent of 175B on 96 GPUs") {
    const auto gain = [](std::int64_t virtual_stages) {
        const PublishedRun run = gpt175b(12, virtual_stages, 60);
        HardwareProfile hardware = hardware_of(run);
        hardware.software.scatter_boundary = false;
        return published_step(run, hardware).seconds / seconds(run) - 1;
    };
    const double whole = gain(1);
    const double interleaved = gain(4);
    CHECK(whole > 0.01);
    CHECK(interleaved > 2 * whole);
    CHECK(interleaved < 0.11);
}

// A step is m microbatches and the (p - 1) / v of the ramps.
TEST_CASE("the bubble is (p - 1) / m, and a third of it with three chunks") {
    for (const std::int64_t chunks : {1, 3}) {
        CAPTURE(chunks);
        const PublishedRun run = gpt175b(8, chunks, 32);
        const StepTime step = published_step(run, hardware_of(run));
        const double microbatch = (seconds(gpt175b(8, chunks, 64)) - step.seconds) / 32;
        const double ramps = step.seconds - step[Spent::optimizer] - 32 * microbatch;
        CHECK(ramps / microbatch == Approx(7.0 / static_cast<double>(chunks)).epsilon(0.1));
    }
}

}  // namespace gptrain::test
