// Whole optimizer steps of the GPT-2 124M shape on the CPU backend, compared with the speed of
// oneDNN's own GEMM in the same process on the same threads.
//
//   bench_cpu SEQUENCES SEQ_LENGTH fp32|bf16 [STEPS]
//
// Prints one JSON object: shape, dtype, tokens_per_s (median of STEPS steps after two warmup
// steps), model_gflops, onednn_gflops (median of GEMMs after each step; null if oneDNN has none of
// this dtype), ratio (to fp32 then), peak_bytes of the process, predicted_bytes of the meter.
#include <string>
#include <sys/resource.h>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "calibrate/made_up_batch.h"
#include "cpu/cpu_backend.h"
#include "cpu_step.h"
#include "engine/engine.h"
#include "engine/measure.h"
#include "gemm_rate.h"
#include "spec/make_plan.h"
#include "spec/model_cost.h"
#include "timing.h"

using namespace gptrain;

namespace {

std::int64_t peak_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * 1024;
}

Json measure(std::int64_t sequences, std::int64_t seq_length, Precision precision,
             std::int64_t steps) {
    const RunSpec spec = bench::gpt2_124m(sequences, seq_length, precision);
    const RunPlan plan = make_plan(spec, {});
    const auto backend = cpu::make_backend();
    const Mesh mesh = one_rank_mesh();
    const StepCost cost = measure_run(plan, {}, memory_of(*backend));
    Engine engine(*backend, mesh, plan, cost.memory);
    engine.initialise();
    StepBatch batch = made_up_batch(plan, mesh.place().dp);
    const auto step = [&] {
        ++batch.step;
        return bench::seconds_of([&] {
            engine.step(batch);
            engine.read_state();
        });
    };
    batch.step = 0;
    step();
    step();
    const std::int64_t peak = peak_bytes();
    bench::GemmRate gemms(precision);
    std::vector<double> seconds;
    for (std::int64_t i = 0; i < steps; ++i) {
        seconds.push_back(step());
        gemms.run();
    }
    const double tokens_per_s = batch.weight_sum / bench::median(seconds);
    const double gflops = tokens_per_s * flops_per_token(plan) * 1e-9;
    return {{"shape", text("B", sequences, "xT", seq_length)},
            {"dtype", name_of(precision)},
            {"tokens_per_s", tokens_per_s},
            {"model_gflops", gflops},
            {"onednn_gflops", gemms.has_precision() ? Json(gemms.gflops()) : Json()},
            {"ratio", gflops / gemms.gflops()},
            {"peak_bytes", peak},
            {"predicted_bytes", cost.memory.total()}};
}

}  // namespace

int main(int argc, char** argv) {
    return bench::measure_steps("bench_cpu", argc, argv, measure);
}
