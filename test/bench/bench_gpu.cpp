// Benchmarks on the first GPU; scripts/bench_gpu.sh compares them with PyTorch. The last line of
// stdout is one JSON object.
#include <CLI/CLI.hpp>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "cuda/runtime/probe.h"
#include "gpu_bench.h"

using namespace gptrain;
using namespace gptrain::bench;

namespace {

const std::map<std::string, Precision> precisions = {{"fp32", Precision::fp32},
                                                     {"bf16", Precision::bf16},
                                                     {"fp16", Precision::fp16},
                                                     {"fp8", Precision::fp8}};
const std::map<std::string, Fp8Recipe> recipes = {{"tensor", Fp8Recipe::tensor},
                                                  {"block", Fp8Recipe::block}};
const std::map<std::string, Precision> gradients = {{"bf16", Precision::bf16},
                                                    {"fp8", Precision::fp8}};
const std::map<std::string, Recompute> recomputes = {
    {"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}};

void add_step(CLI::App& app, StepOptions& options) {
    CLI::App* step = app.add_subcommand("step", "Whole training steps of a model");
    step->add_option("model", options.model, "gpt2-124m | gpt2-1.5b | gpt3-6.7b | llama-7b")
        ->required();
    step->add_option("--microbatches", options.microbatches, "Microbatches of a step")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    step->add_option("--micro-batch-size", options.micro_batch_size, "Sequences of a microbatch")
        ->check(CLI::PositiveNumber);
    step->add_option("--layers", options.layers, "Layers, if not the model's")
        ->check(CLI::PositiveNumber);
    step->add_option("--vocab", options.vocab, "Vocabulary, if not the model's")
        ->check(CLI::PositiveNumber);
    step->add_option("--precision", options.precision, "fp32 | bf16 | fp16 | fp8 (bf16)")
        ->transform(CLI::CheckedTransformer(precisions));
    step->add_option("--fp8-recipe", options.fp8_recipe, "tensor | block (tensor)")
        ->transform(CLI::CheckedTransformer(recipes));
    step->add_option("--fp8-weight-gradients", options.fp8_weight_gradients,
                     "bf16 | fp8 (those of the recipe)")
        ->transform(CLI::CheckedTransformer(gradients));
    step->add_option("--recompute", options.recompute,
                     "none | selective | full (the first of them that fits)")
        ->transform(CLI::CheckedTransformer(recomputes));
    step->add_option("--seconds", options.seconds, "For the timed steps: at most 20, at least 5")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    step->add_flag("--graphs", options.graphs, "Replay recorded graphs");
    step->add_flag("!--no-tuning", options.tune, "Take the library's first choice of algorithms");
    step->add_option("--warm", options.warm_seconds, "Seconds of GEMMs before tuning")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    step->add_flag("!--not-deterministic", options.deterministic, "As with deterministic: false");
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Measures gptrain on the first GPU");
    app.require_subcommand(1);
    StepOptions options;
    add_step(app, options);
    double product_seconds = 3;
    CLI::App* product = app.add_subcommand("product", "Products of 8192 x 8192 in bf16");
    product->add_option("--seconds", product_seconds, "How long")->capture_default_str();
    CLI::App* kernels = app.add_subcommand("kernels", "Bandwidth of each memory-bound op");
    CLI::App* attention = app.add_subcommand("attention", "Attention, forward and backward");
    CLI::App* gemms = app.add_subcommand("gemms", "GEMMs with more workspace, or the residual");
    CLI::App* contention =
        app.add_subcommand("contention", "GEMMs while other kernels hold multiprocessors");
    std::vector<int> held = {0, 24, 16, 8, 2};
    contention->add_option("--held", held, "Numbers of multiprocessors")
        ->delimiter(',')
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    try {
        const cuda::DeviceProbe probe = cuda::probe_device(0);
        if (probe.state != cuda::DeviceState::usable) fail(ExitCode::usage, probe.reason);
        const Json result = product->parsed()      ? measure_product(product_seconds)
                            : kernels->parsed()    ? measure_kernels()
                            : attention->parsed()  ? measure_attention()
                            : gemms->parsed()      ? measure_gemms()
                            : contention->parsed() ? measure_contention(held)
                                                   : measure_step(options);
        print(to_line(result));
    } catch (const Error& error) {
        error_line("bench_gpu", error.what());
        return static_cast<int>(error.code());
    }
    return 0;
}
