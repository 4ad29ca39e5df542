#include "infer/inference.h"

#include <algorithm>
#include <utility>

#include "meter/meter_communicator.h"
#include "model/quantised_loads.h"
#include "stored/load_streamed.h"
#include "stored/saved_run.h"
#include "stored/source_weights.h"

namespace gptrain {
namespace {

// With this many microbatches per stage the bubble is one eighth.
constexpr std::int64_t microbatches_of_stage = 8;

/// The most elements that are read at once.
std::int64_t largest_read(Backend& backend, const Parameters& parameters) {
    std::int64_t largest = 0;
    for (const Parameter& parameter : parameters.layout().parameters)
        if (parameter.storage.in_compute_dtype)
            largest = std::max(largest, parameter.shard.elements());
    for (const QuantisedLoad& matrix : quantised_loads(backend, parameters))
        largest = std::max(largest, matrix.shard.elements());
    return largest;
}

void check_setting(const std::string& setting) {
    for (const std::string_view key : {"parallel.", "device=", "precision.compute=",
                                       "precision.frozen=", "precision.nf4_double="})
        if (setting.starts_with(key)) return;
    fail(ExitCode::usage, "--set ", setting,
         ": only device, precision.compute, precision.frozen, precision.nf4_double and parallel.* "
         "can be set here; "
         "everything else comes from the checkpoint");
}

RunSpec with_settings(RunSpec spec, const std::string& source,
                      const std::vector<std::string>& settings) {
    for (const std::string& setting : settings)
        check_setting(setting);
    RunSpec set = parse_run_spec(to_yaml(without_training(std::move(spec))), source, settings);
    if (set.parallel.expert > 1)
        fail(ExitCode::usage, "--set parallel.expert=", set.parallel.expert,
             ": only training divides the experts; here parallel.tensor splits each of them, and "
             "parallel.pipeline the layers");
    return set;
}

ParameterLayout inference_layout(const RunPlan& plan, const MeshPlace& place) {
    LayoutRequest request = layout_request(plan, place);
    request.quantised = {.format = quantised_format(plan), .inference = true};
    return make_layout(request);
}

Json model_of(const CheckpointMeta& meta) {
    const std::string source = text("checkpoint of step ", meta.step, ": identity");
    return JsonReader(meta.identity, source).object("model");
}

/// Checks the checkpoint that `source` has opened after a damaged one.
std::function<void()> same_model(ModelSource& source) {
    if (!source.is_checkpoint()) return [] {};
    return [&source, model = model_of(source.checkpoint().meta())] {
        const RestartPoint& checkpoint = source.checkpoint();
        if (model_of(checkpoint.meta()) == model) return;
        fail(ExitCode::usage, checkpoint.folder().string(),
             ": has a different model from the damaged checkpoint; name the checkpoint to use");
    };
}

}  // namespace

RunSpec inference_spec(const std::filesystem::path& folder, const CheckpointMeta& meta,
                       const std::vector<std::string>& settings) {
    const std::string source = (folder / "manifest.json").string() + ": state.spec";
    return with_settings(parse_run_spec(saved_run(meta).spec_yaml, source), source, settings);
}

RunSpec inference_spec(const ModelSource& source, const std::vector<std::string>& settings) {
    if (source.is_checkpoint())
        return inference_spec(source.folder(), source.checkpoint().meta(), settings);
    return with_settings(source.spec(), (source.whole().folder() / hf_config_name).string(),
                         settings);
}

void require_causal(const Objective& objective, const std::filesystem::path& source,
                    std::string_view work) {
    if (std::holds_alternative<CausalSpec>(objective)) return;
    fail(ExitCode::usage, source.string(),
         ": with objective mlm every token sees the whole text, so the model cannot ", work,
         "; gptrain eval --data measures it");
}

RunSpec without_training(RunSpec spec) {
    spec.parallel = {};
    spec.training.global_batch_size.reset();
    spec.training.rampup = {};
    spec.training.frozen.clear();
    spec.optimizer.state = MomentFormat::fp32;
    spec.precision.main_weights = Precision::fp32;
    spec.precision.fp8_recipe.reset();
    spec.precision.fp8_weight_gradients.reset();
    spec.deterministic = true;
    return spec;
}

InferenceModel::InferenceModel(Backend& backend, const Mesh& mesh, const RunPlan& plan,
                               const std::optional<MemoryPlan>& memory)
    : memory_(backend, memory),
      context_(model_context(backend, mesh, memory_, plan)),
      parameters_(memory_, inference_layout(plan, mesh.place()), plan.compute,
                  Parameters::Use::inference),
      chunks_(make_chunks(context_, parameters_, plan)) {
    if (plan.compute != DType::f32 || plan.quantised()) {
        staging_ = memory_[MemoryUse::main_params].allocate(DType::f32,
                                                            {largest_read(backend, parameters_)});
    }
    provide_backend_memory(backend, memory_, op_limits(plan));
}

std::vector<StreamedState> InferenceModel::weights() {
    std::vector<StreamedState> states;
    for (const Parameter& parameter : parameters_.layout().parameters) {
        if (!parameter.storage.in_compute_dtype) continue;
        const Tensor values = staging_.empty() ? parameters_.weights(parameter.range())
                                               : staging_.slice(0, 0, parameter.shard.elements());
        states.push_back({"weight", parameter.shard, values, [this, &parameter, values] {
                              parameters_.set(context_.backend, parameter, values);
                          }});
    }
    for (const QuantisedLoad& matrix : quantised_loads(context_.backend, parameters_)) {
        const Tensor values = staging_.slice(0, 0, matrix.shard.elements());
        states.push_back({.group = "weight",
                          .shard = matrix.shard,
                          .values = values,
                          .on_filled = [set = matrix.set, values] { set(values); },
                          .on_stored = matrix.set_stored});
    }
    return states;
}

void InferenceModel::load(ModelSource& source, const MpiSession& ranks) {
    std::vector<StreamedState> adapter;
    std::vector<StreamedState> rest;
    for (StreamedState& state : weights())
        (is_adapter_parameter(state.shard.name) ? adapter : rest).push_back(std::move(state));
    const auto fill = [&](ModelSource& from, std::span<const StreamedState> states,
                          const std::function<void()>& check_older) {
        load_streamed(from, context_.backend, ranks, states, check_older);
    };
    ModelSource* adapted = source.adapted();
    if (adapted == nullptr) return fill(source, rest, same_model(source));
    fill(*adapted, rest, [&] { refuse_older_weights(*adapted); });
    fill(source, adapter, same_model(source));
}

void InferenceModel::load(const WeightReader& reader) {
    for (const StreamedState& state : weights()) {
        reader(state.shard,
               {state.values.as<float>(), static_cast<std::size_t>(state.values.elements())});
        state.on_filled();
    }
}

void set_evaluation_batches(RunPlan& plan, std::int64_t sequences) {
    plan.micro_batch_size = std::min(plan.micro_batch_size, div_ceil(sequences, plan.mesh.data));
    const std::int64_t at_once = plan.micro_batch_size * plan.mesh.data;
    const std::int64_t stages = plan.mesh.pipeline;
    const std::int64_t most = stages == 1 ? 1 : microbatches_of_stage * stages;
    plan.batch = {.global_batch_size = at_once * std::min(most, div_ceil(sequences, at_once)),
                  .rampup = {}};
}

StageSizes evaluation_sizes(const RunPlan& plan, const Mesh& mesh) {
    const std::int64_t microbatches = plan.microbatches(plan.batch.global_batch_size);
    const Schedule schedule =
        make_forward_schedule(pipeline_of(plan, microbatches), mesh.place().pp);
    return {.slots = schedule.slots,
            .buffers = schedule.buffers,
            .saved = {.seq_length = plan.local_length()},
            .stream = stream_slice(plan, mesh.place()),
            .masks = batch_masks(plan)};
}

std::string more_ranks_advice() {
    return "use more devices or machines: start more ranks with --set parallel.tensor=N or "
           "--set parallel.pipeline=N";
}

MeshConnections answer_connections(const RunPlan& plan) {
    MeshConnections connections = mesh_connections(plan);
    const Channel answers = {connections.head_stage, 0};
    std::vector<Channel>& channels = connections.channels;
    if (answers.from != 0 && std::find(channels.begin(), channels.end(), answers) == channels.end())
        channels.push_back(answers);
    return connections;
}

Mesh meter_mesh(const RunPlan& plan, const MeshPlace& place) {
    return Mesh(plan.mesh, place, answer_connections(plan), meter_communicators());
}

}  // namespace gptrain
