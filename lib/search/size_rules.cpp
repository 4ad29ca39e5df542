#include "search/size_rules.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/checked.h"

namespace gptrain {
namespace {

constexpr double least_fitted_flops = 1e17;
constexpr double least_steps = 500;

constexpr std::array<ModelSize, 21> sizes = {{
    {2, 64, 1, 128},       {2, 128, 2, 256},     {4, 128, 2, 256},     {4, 192, 3, 256},
    {6, 256, 4, 256},      {6, 320, 5, 512},     {6, 384, 6, 512},     {8, 512, 8, 512},
    {10, 640, 10, 1024},   {12, 768, 12, 1024},  {16, 1024, 16, 1024}, {24, 1024, 16, 1024},
    {24, 1536, 12, 2048},  {24, 2048, 16, 2048}, {32, 2560, 20, 2048}, {32, 3072, 24, 2048},
    {32, 4096, 32, 4096},  {40, 5120, 40, 4096}, {48, 6656, 52, 4096}, {64, 8192, 64, 4096},
    {80, 10240, 80, 4096},
}};

double two_digits(double value) {
    const double unit = std::pow(10.0, std::floor(std::log10(value)) - 1);
    return std::round(value / unit) * unit;
}

}  // namespace

std::span<const ModelSize> model_sizes() {
    return sizes;
}

TrainingSize training_size(std::int64_t parameters, std::int64_t tokens, std::int64_t seq_length,
                           std::int64_t multiple) {
    const double flops = 6.0 * static_cast<double>(parameters) * static_cast<double>(tokens);
    const double best_batch = 0.2920 * std::pow(flops, 0.3271);
    const double batch = std::min(best_batch, static_cast<double>(tokens) / least_steps);
    const double units = batch / static_cast<double>(checked_mul(seq_length, multiple));
    const double doublings = std::max(0.0, std::round(std::log2(units)));
    TrainingSize size;
    size.global_batch_size = checked_mul(multiple, std::int64_t{1} << std::llround(doublings));
    const std::int64_t batch_tokens = checked_mul(size.global_batch_size, seq_length);
    size.steps = std::max<std::int64_t>(1, tokens / batch_tokens);
    const double share = std::min(1.0, static_cast<double>(batch_tokens) / best_batch);
    const double law = 0.3118 * std::pow(std::max(flops, least_fitted_flops), -0.1250);
    size.lr = two_digits(law * std::sqrt(share));
    return size;
}

void set_steps(RunSpec& spec, std::int64_t steps) {
    spec.training.steps = steps;
    spec.training.eval_interval = std::max<std::int64_t>(1, steps / 10);
    spec.training.eval_steps = 5;
    spec.checkpoint.interval = std::clamp<std::int64_t>(steps / 10, 1, 500);
    spec.logging.interval = std::clamp<std::int64_t>(steps / 50, 1, 10);
}

ModelSpec model_of(const ModelSize& size, std::int64_t vocab_size) {
    ModelSpec model;
    model.num_layers = size.layers;
    model.hidden_size = size.hidden;
    model.num_attention_heads = size.heads;
    model.ffn_hidden_size = round_up(size.hidden * 8 / 3, 64);
    model.vocab_size = vocab_size;
    model.position_embedding = PositionEmbedding::rope;
    model.normalization = Normalization::rmsnorm;
    model.activation = Activation::swiglu;
    model.bias = false;
    return model;
}

}  // namespace gptrain
