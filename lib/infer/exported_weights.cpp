#include "infer/exported_weights.h"

#include <algorithm>
#include <cmath>

#include "engine/memory_check.h"
#include "engine/rank_model.h"
#include "infer/logits.h"

namespace gptrain {
namespace {

constexpr std::int64_t compared_tokens = 32;
// Tolerances relative to the largest logit; fp32 weights must come back unchanged. With a merged
// adapter every weight and every sum is rounded elsewhere.
constexpr float fp32_tolerance = 1e-6F;
constexpr float merged_tolerance = 1e-4F;

LogitError difference(const std::vector<float>& ours, const std::vector<float>& theirs,
                      std::int64_t tokens) {
    GPTRAIN_CHECK(ours.size() == theirs.size());
    LogitError error{.tokens = tokens};
    for (std::size_t i = 0; i < ours.size(); ++i) {
        const float apart = std::abs(ours[i] - theirs[i]);
        if (!std::isfinite(apart)) {
            fail(ExitCode::numerical, "the logits of the ",
                 std::isfinite(ours[i]) ? "exported model" : "checkpoint", " are not finite");
        }
        error.difference = std::max(error.difference, apart);
        error.largest = std::max(error.largest, std::abs(ours[i]));
    }
    return error;
}

std::vector<std::int32_t> fixed_tokens(const ModelShape& model) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < std::min(compared_tokens, model.max_positions); ++i)
        ids.push_back(static_cast<std::int32_t>((7919 * i + 11) % model.vocab));
    return ids;
}

}  // namespace

MergedWeights::MergedWeights(const ModelSource& source, const RunPlan& plan)
    : weights_(source, plan.model, quantised_format(plan)), model_(plan.model) {
    if (!model_.lora) return;
    for (const Shard& tensor : whole_tensors(model_))
        if (is_adapter_parameter(tensor.name)) adapters_.emplace(tensor.name, tensor);
}

void MergedWeights::read_adapter(const std::string& layer) {
    if (layer == layer_) return;
    const auto read = [&](std::string_view suffix, std::vector<float>& values) {
        const Shard& tensor = adapters_.at(text(layer, suffix));
        values.resize(static_cast<std::size_t>(tensor.elements()));
        weights_.read(tensor, values);
    };
    read(lora_a_suffix, a_);
    read(lora_b_suffix, b_);
    layer_ = layer;
}

void MergedWeights::read(const Shard& part, std::span<float> to) {
    weights_.read(part, to);
    const std::string layer = part.name.substr(0, part.name.rfind('.'));
    if (part.global.rank() != 2 || !adapters_.contains(text(layer, lora_a_suffix))) return;
    read_adapter(layer);
    const std::int64_t rank = model_.lora->rank;
    const auto scale = static_cast<float>(model_.lora->scale);
    const std::int64_t inputs = part.global[1];
    const std::int64_t width = part.box.extent[1];
    for (std::int64_t i = part.flat_begin; i < part.flat_end; ++i) {
        const std::int64_t row = part.box.offset[0] + i / width;
        const std::int64_t column = part.box.offset[1] + i % width;
        float sum = 0;
        for (std::int64_t r = 0; r < rank; ++r)
            sum += b_[static_cast<std::size_t>(row * rank + r)] *
                   a_[static_cast<std::size_t>(r * inputs + column)];
        to[static_cast<std::size_t>(i - part.flat_begin)] += scale * sum;
    }
}

std::optional<LogitError> compare_logits(const InferenceRun& run, const WeightReader& exported,
                                         DType dtype, bool rounded) {
    const std::vector<std::int32_t> ids = fixed_tokens(run.plan.model);
    // The files have quantised weights as they are dequantised.
    RunPlan exact = run.plan;
    exact.int8_frozen = exact.nf4_frozen = exact.nf4_double = false;
    FrozenWeightReader frozen(run.source, run.plan.model, quantised_format(run.plan));
    const WeightReader dequantised = [&](const Shard& part, std::span<float> to) {
        frozen.read(part, to);
    };
    RunPlan plain = exact;
    plain.model.lora.reset();
    plain.local.lora.reset();
    const MemoryPlan needed = logits_memory(run.backend, run.mesh, exact, std::ssize(ids));
    if (MemoryCheck(run.backend, run.ranks).find_shortage(needed)) return std::nullopt;
    const auto ours = compute_logits(run.backend, run.mesh, exact, ids, [&](InferenceModel& model) {
        run.plan.quantised() ? model.load(dequantised) : model.load(run.source, run.ranks);
    });
    const auto theirs = compute_logits(run.backend, run.mesh, plain, ids,
                                       [&](InferenceModel& model) { model.load(exported); });
    const LogitError error = difference(ours, theirs, std::ssize(ids));
    if (dtype == DType::f32) {
        const float tolerance = run.plan.model.lora || rounded ? merged_tolerance : fp32_tolerance;
        GPTRAIN_CHECK(error.difference <= tolerance * error.largest, "logits differ by ",
                      error.difference, " of ", error.largest);
    }
    return error;
}

}  // namespace gptrain
