#include "infer/exported_weights.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "checkpoint/folder.h"
#include "engine/memory_check.h"
#include "infer/logits.h"

namespace gptrain {
namespace {

constexpr std::int64_t compared_tokens = 32;
// Of the largest logit; fp32 weights must come back unchanged.
constexpr float fp32_tolerance = 1e-6F;

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

CheckpointWeights::CheckpointWeights(const std::filesystem::path& folder)
    : folder_(folder), manifest_(read_manifest(folder)), reader_(folder, manifest_) {}

void CheckpointWeights::read(const Shard& part, std::span<float> to) {
    const TensorRecord* tensor = manifest_.find("weight", part.name);
    if (tensor == nullptr || tensor->shape != part.global) {
        fail(ExitCode::bad_input, folder_.string(), ": has no tensor weight/", part.name,
             " of shape ", part.global.to_text());
    }
    reader_.read(part, *tensor, std::as_writable_bytes(to));
}

std::optional<LogitError> compare_logits(const InferenceRun& run, const WeightReader& exported,
                                         DType dtype) {
    const std::vector<std::int32_t> ids = fixed_tokens(run.plan.model);
    const LogitComputer computer(run.backend, run.mesh, run.plan, ids);
    if (MemoryCheck(run.backend, run.ranks).find_shortage(computer.memory())) return std::nullopt;
    const auto ours =
        computer.compute([&](InferenceModel& model) { model.load(run.source, run.ranks); });
    const auto theirs = computer.compute([&](InferenceModel& model) { model.load(exported); });
    const LogitError error = difference(ours, theirs, std::ssize(ids));
    if (dtype == DType::f32) {
        GPTRAIN_CHECK(error.difference <= fp32_tolerance * error.largest, "logits differ by ",
                      error.difference, " of ", error.largest);
    }
    return error;
}

}  // namespace gptrain
