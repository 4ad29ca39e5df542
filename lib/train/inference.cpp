#include "train/inference.h"

#include <algorithm>
#include <numeric>

#include "checkpoint/load.h"
#include "train/resume.h"

namespace gptrain {
namespace {

std::int64_t largest_parameter(const ParameterLayout& layout) {
    std::int64_t largest = 0;
    for (const Parameter& parameter : layout.parameters) {
        largest = std::max(largest, parameter.shard.elements());
    }
    return largest;
}

OpLimits limits_for(const RunPlan& plan, const InferenceSizes& sizes) {
    OpLimits limits = op_limits(plan);
    limits.sequences = sizes.sequences;
    limits.seq_length = std::max(sizes.seq_length, sizes.cached_tokens);
    return limits;
}

}  // namespace

InferenceModel::InferenceModel(Backend& backend, const Mesh& mesh, const RunPlan& plan,
                               const InferenceSizes& sizes, const std::optional<MemoryPlan>& memory)
    : backend_(backend),
      memory_(backend, memory),
      context_{.backend = backend,
               .mesh = mesh,
               .memory = memory_,
               .shape = plan.model,
               .compute = plan.compute,
               .seed = 0,
               .head_chunk = plan.head_chunk,
               .sequences = sizes.sequences},
      parameters_(memory_, make_layout({.model = plan.model, .parts = {whole_model(plan)}}),
                  plan.compute, Parameters::Use::inference),
      chunk_(context_, parameters_, whole_model(plan), parameters_.layout().chunks.front()),
      state_(reserve_step_state(memory_, 1)),
      batch_(reserve_batch(memory_[MemoryUse::batch], {sizes.sequences, sizes.seq_length},
                           sizes.first_visible)) {
    if (plan.compute != DType::f32) {
        staging_ = memory_[MemoryUse::main_params].allocate(
            DType::f32, {largest_parameter(parameters_.layout())});
    }
    if (sizes.cached_tokens > 0) {
        Arena& saved = memory_[MemoryUse::saved];
        caches_ = chunk_.reserve_caches(saved, 1, sizes.cached_tokens);
        logits_ = saved.allocate(plan.compute, {1, plan.model.vocab});
        logits_f32_ = saved.allocate(DType::f32, {1, plan.model.vocab});
    }
    give_memory(backend, memory_, limits_for(plan, sizes));
}

void InferenceModel::load(const ValidCheckpoint& checkpoint) {
    for (const Parameter& parameter : parameters_.layout().parameters) {
        const std::int64_t elements = parameter.shard.elements();
        const Tensor weight = parameters_.weights().slice(0, parameter.begin, elements);
        const Tensor values = staging_.empty() ? weight : staging_.slice(0, 0, elements);
        load_state(checkpoint.folder, checkpoint.manifest, backend_,
                   [&](const StateVisitor& visit) {
                       visit({"weight", parameter.shard, values});
                   });
        if (!staging_.empty()) backend_.cast(weight, values);
    }
}

LossSum InferenceModel::loss(const Microbatch& microbatch, double weight_sum) {
    StepState given{};
    given.token_weight_sum = weight_sum;
    backend_.begin_step(state_, given);
    upload_batch(backend_, batch_, microbatch);
    chunk_.evaluate({.batch = batch_, .step = state_, .training = false}, {});
    StepState result{};
    backend_.download(std::as_writable_bytes(std::span(&result, 1)), state_.state);
    return {result.loss_sum, weight_sum};
}

std::vector<float> InferenceModel::next_logits(std::span<const std::int32_t> tokens) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    Batch batch;
    batch.ids = batch_.ids.slice(0, 0, 1).slice(1, 0, count);
    batch.positions = batch_.positions.slice(0, 0, 1).slice(1, 0, count);
    batch.stream_positions = batch.positions;
    std::vector<std::int32_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), narrow<std::int32_t>(caches_.front().length));
    backend_.upload(batch.ids, std::as_bytes(tokens));
    backend_.upload(batch.positions, std::as_bytes(std::span(positions)));
    chunk_.next_token_logits(batch, caches_, logits_);
    backend_.cast(logits_f32_, logits_);
    std::vector<float> logits(static_cast<std::size_t>(logits_f32_.elements()));
    backend_.download(std::as_writable_bytes(std::span(logits)), logits_f32_);
    return logits;
}

RunSpec spec_of(const ValidCheckpoint& checkpoint) {
    const std::string source = (checkpoint.folder / "manifest.json").string() + ": state.spec";
    return parse_run_spec(saved_run(checkpoint.manifest.meta).spec_yaml, source);
}

RunPlan inference_plan(RunSpec spec, bool cuda) {
    spec.parallel = {};
    return make_plan(spec, {.world_size = 1, .cuda = cuda});
}

std::unique_ptr<InferenceModel> load_model(const ValidCheckpoint& checkpoint, Backend& backend,
                                           const Mesh& mesh, const RunPlan& plan,
                                           const InferenceSizes& sizes) {
    MeterBackend meter(needs_of(backend));
    InferenceModel measured(meter, mesh, plan, sizes);
    if (sizes.cached_tokens > 0) {
        measured.next_logits(std::vector<std::int32_t>(static_cast<std::size_t>(sizes.seq_length)));
    } else {
        measured.loss({}, 1);
    }
    auto model =
        std::make_unique<InferenceModel>(backend, mesh, plan, sizes, measured.memory_used());
    model->load(checkpoint);
    return model;
}

}  // namespace gptrain
