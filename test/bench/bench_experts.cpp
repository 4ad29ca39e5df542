// Whole optimizer steps of a mixture of experts on the CPU backend, compared with what its work
// takes at the speed of oneDNN's own GEMM and of a dense model's other ops.
//
//   bench_experts SEQUENCES SEQ_LENGTH fp32|bf16 [STEPS]
//
// The mixture has the GPT-2 124M shape with SwiGLU, 8 experts of width 1024 and 2 of them in a
// token; the dense model has an mlp of width 2048, which multiplies as much for each token. Their
// steps take turns with the GEMMs of gemm_rate.h.
//
//   gemms = FLOPs of the mixture's active matrices / rate of the GEMM
//   other = the time of the dense model's step outside of GEMMs; its ops on parameters (AdamW,
//           the gradient's norm) count times the ratio of the models' parameters
//
// Prints one JSON object: shape, dtype, step_s (median of STEPS steps after two warmup steps),
// gemms_s and other_s as above, dense_gemms_s (the same FLOPs at the speed of the dense model's
// GEMMs), ratio = step_s / (gemms_s + other_s), dense_ratio = step_s / (dense_gemms_s + other_s),
// onednn_gflops (null if oneDNN has no such GEMM of this dtype).
#include <map>
#include <set>
#include <string>
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
#include "timed_backend.h"
#include "timing.h"

using namespace gptrain;

namespace {

constexpr std::int64_t experts = 8;
constexpr std::int64_t per_token = 2;
constexpr std::int64_t width = 1024;

using Names = std::set<std::string, std::less<>>;
const Names products = {"linear_forward",  "linear_input_grad",  "linear_weight_grad",
                        "grouped_forward", "grouped_input_grad", "grouped_weight_grad"};
const Names on_parameters = {"adamw", "square_sum", "clear", "find_not_finite"};

/// A model, its steps, and how long their ops take.
class TimedModel {
public:
    TimedModel(const RunSpec& spec, Backend& inner)
        : plan_(make_plan(spec, {})),
          backend_(inner),
          mesh_(one_rank_mesh()),
          cost_(measure_run(plan_, {}, memory_of(inner))),
          engine_(backend_, mesh_, plan_, cost_.memory),
          batch_(made_up_batch(plan_, 0)) {
        engine_.initialise();
        backend_.time(true);
        batch_.step = 0;
        for (int warmup = 0; warmup < 2; ++warmup)
            step();
        seconds_.clear();
        ops_.clear();
    }

    void step() {
        ++batch_.step;
        seconds_.push_back(bench::seconds_of([&] {
            engine_.step(batch_);
            engine_.read_state();
        }));
        ops_.push_back(backend_.take_times().ops);
    }

    double seconds() const { return bench::median(seconds_); }
    /// The median time of these ops in a step.
    double seconds_of(const Names& names) const {
        std::vector<double> sums;
        for (const auto& ops : ops_) {
            double sum = 0;
            for (const auto& [name, milliseconds] : ops)
                sum += names.contains(name) ? 1e-3 * milliseconds : 0;
            sums.push_back(sum);
        }
        return bench::median(sums);
    }
    /// FLOPs of a step in matrices, without attention.
    double gemm_flops() const {
        double flops = flops_per_token(plan_) - flops_outside_gemms(plan_);
        for (std::int64_t layer = 0; layer < plan_.model.layers; ++layer)
            flops -= attention_flops_per_token(plan_.model, layer, plan_.seq_length);
        return flops * batch_.weight_sum;
    }
    double parameters() const { return static_cast<double>(parameter_count(plan_.model)); }

private:
    RunPlan plan_;
    bench::TimedBackend backend_;
    Mesh mesh_;
    StepCost cost_;
    Engine engine_;
    StepBatch batch_;
    std::vector<double> seconds_;
    std::vector<std::map<std::string, double>> ops_;
};

RunSpec dense_spec(std::int64_t sequences, std::int64_t seq_length, Precision precision) {
    RunSpec spec = bench::gpt2_124m(sequences, seq_length, precision);
    spec.model.activation = Activation::swiglu;
    spec.model.ffn_hidden_size = per_token * width;
    spec.model.bias = false;
    return spec;
}

RunSpec mixture_spec(std::int64_t sequences, std::int64_t seq_length, Precision precision) {
    RunSpec spec = dense_spec(sequences, seq_length, precision);
    spec.model.experts = {.count = experts, .per_token = per_token, .ffn_hidden_size = width};
    return spec;
}

Json measure(std::int64_t sequences, std::int64_t seq_length, Precision precision,
             std::int64_t steps) {
    const auto device = cpu::make_backend();
    const auto dense_device = cpu::make_backend();
    TimedModel mixture(mixture_spec(sequences, seq_length, precision), *device);
    TimedModel dense(dense_spec(sequences, seq_length, precision), *dense_device);
    bench::GemmRate gemms(precision);
    for (std::int64_t i = 0; i < steps; ++i) {
        mixture.step();
        gemms.run();
        dense.step();
        gemms.run();
    }
    const double parameters = mixture.parameters() / dense.parameters();
    const double of_parameters = dense.seconds_of(on_parameters);
    const double of_products = dense.seconds_of(products);
    const double other = dense.seconds() - of_products + (parameters - 1) * of_parameters;
    const double flops = mixture.gemm_flops();
    const double at_rate = flops / gemms.gflops() * 1e-9;
    const double as_dense = flops / dense.gemm_flops() * of_products;
    return {{"shape", text("B", sequences, "xT", seq_length)},
            {"dtype", name_of(precision)},
            {"step_s", mixture.seconds()},
            {"gemms_s", at_rate},
            {"dense_gemms_s", as_dense},
            {"other_s", other},
            {"ratio", mixture.seconds() / (at_rate + other)},
            {"dense_ratio", mixture.seconds() / (as_dense + other)},
            {"onednn_gflops", gemms.has_precision() ? Json(gemms.gflops()) : Json()}};
}

}  // namespace

int main(int argc, char** argv) {
    return bench::measure_steps("bench_experts", argc, argv, measure);
}
