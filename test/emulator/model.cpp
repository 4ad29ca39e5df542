// Whole models on the emulated backend: settings that must not change a bit.
#include <cmath>
#include <cstdio>

#include "base/crc32c.h"
#include "catch.h"
#include "emulator/grid.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

struct Result {
    std::vector<double> losses;
    NamedValues weights;
    bool operator==(const Result&) const = default;
};

Result train(TinyRun& run, int first, int last) {
    Result result;
    for (int step = first; step <= last; ++step)
        result.losses.push_back(run.step(random_batch(run.plan(), step)));
    result.weights = run.state("weight");
    return result;
}

Result train(const RunSpec& spec) {
    TinyRun run(spec);
    return train(run, 1, 2);
}

RunSpec two_layers(RunSpec spec, Precision compute) {
    spec.model.num_layers = 2;
    spec.model.dropout = 0.2;
    spec.precision.compute = compute;
    return spec;
}

}  // namespace

TEST_CASE("recomputation and schedule change no bit on the emulated backend", "[emulator]") {
    RunSpec spec = GENERATE(two_layers(tiny_spec(), Precision::bf16),
                            two_layers(tiny_llama_spec(), Precision::fp16),
                            two_layers(tiny_qwen_spec(), Precision::bf16),
                            two_layers(tiny_olmo_spec(), Precision::bf16),
                            two_layers(tiny_falcon_spec(), Precision::bf16));
    spec.recompute = Recompute::none;
    const Result none = train(spec);
    REQUIRE(std::isfinite(none.losses.back()));
    spec.recompute = Recompute::selective;
    CHECK(train(spec) == none);
    spec.recompute = Recompute::full;
    spec.parallel.schedule = ScheduleKind::zero_bubble;
    CHECK(train(spec) == none);
}

// The emulator's streams do their work as late as they may, so a copy that nothing waits for shows.
TEST_CASE("state and activations in host memory change no bit on the emulated backend",
          "[emulator]") {
    const bool muon = GENERATE(false, true);
    RunSpec spec = two_layers(muon ? tiny_llama_spec() : tiny_spec(), Precision::bf16);
    spec.model.num_layers = 3;
    spec.optimizer.name = muon ? "muon" : "adamw";
    if (!muon) spec.optimizer.state = MomentFormat::eight_bit;
    spec.recompute = Recompute::full;
    const Result resident = train(spec);
    REQUIRE(std::isfinite(resident.losses.back()));
    spec.offload = {
        .optimizer = true, .main_weights = true, .activations = OffloadedActivations::blocks};
    CHECK(train(spec) == resident);
}

TEST_CASE("a restored state goes on bit for bit on the emulated backend", "[emulator]") {
    const RunSpec spec = two_layers(tiny_spec(), Precision::bf16);
    TinyRun straight(spec);
    train(straight, 1, 2);
    TinyRun resumed(spec);
    for (const char* group : {"weight", "exp_avg", "exp_avg_sq"})
        resumed.set_state(group, straight.state(group));
    resumed.engine().restore(straight.engine().read_state());
    CHECK(train(resumed, 3, 4) == train(straight, 3, 4));
}

TEST_CASE("activation functions in GEMMs for sm_90a change no bit with recomputation",
          "[emulator]") {
    RunSpec spec = GENERATE(tiny_spec(), tiny_llama_spec());
    spec.model.num_layers = 1;
    spec.precision.compute = Precision::bf16;
    const auto train_on_hopper = [&](Recompute recompute) {
        spec.recompute = recompute;
        TinyRun run(spec);
        emulator::settings().major = 9;
        emulator::settings().shared_bytes = 227 << 10;
        emulator::settings().sm90_gemm_parts = 1;
        return train(run, 1, 2);
    };
    const Result none = train_on_hopper(Recompute::none);
    CHECK(none.losses.back() == Approx(train(spec).losses.back()).epsilon(1e-3));
    CHECK(train_on_hopper(Recompute::full) == none);
}

// For scripts/check_bits.sh, which compares the lines of two commits.
TEST_CASE("prints the bits of small models", "[.bits]") {
    RunSpec dropped = with_lora(tiny_llama_spec());
    dropped.model.dropout = 0.2;
    RunSpec muon = tiny_spec();
    muon.optimizer.name = "muon";
    RunSpec fp8 = tiny_llama_spec();
    fp8.precision.compute = Precision::fp8;
    fp8.model.ffn_hidden_size = 64;
    const RunSpec specs[] = {tiny_spec(),
                             two_layers(tiny_spec(), Precision::bf16),
                             two_layers(tiny_llama_spec(), Precision::fp16),
                             two_layers(tiny_qwen_spec(), Precision::bf16),
                             two_layers(tiny_neox_spec(), Precision::bf16),
                             fp8,
                             muon,
                             dropped,
                             with_virtual_tokens(tiny_spec(), AdapterKind::prompt)};
    for (const RunSpec& spec : specs) {
        TinyRun run(spec);
        for (const double loss : train(run, 1, 3).losses)
            std::printf("loss %a\n", loss);
        run.visit_state([&](const NamedState& state) {
            const std::vector<float> values = host_values(run.backend(), state);
            std::printf("%s %s %08x\n", std::string(state.group).c_str(), state.shard.name.c_str(),
                        crc32c(values.data(), values.size() * sizeof(float)));
        });
    }
}
