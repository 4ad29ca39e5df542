#include "engine/rank_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/batch_loader.h"
#include "meter/meter_backend.h"

namespace gptrain {
namespace {

/// The slices of each sequence on this rank of cp.
std::vector<SequenceSlice> slices_of(const RunPlan& plan, const MeshPlace& place) {
    return context_slices(plan.seq_length, plan.mesh.context, place.cp, plan.context_method);
}

/// Positions of the residual stream's rows in their sequences.
RowPositions stream_rows(const RunPlan& plan, const MeshPlace& place) {
    return rows_of(slices_of(plan, place), stream_slice(plan, place));
}

std::optional<TokenMasking> masking_of(const RunPlan& plan) {
    const auto* const mlm = std::get_if<MlmSpec>(&plan.objective);
    if (mlm == nullptr) return std::nullopt;
    return TokenMasking{.rule = *mlm, .seed = plan.seed, .vocab_size = plan.model.vocab};
}

/// The most that are ordered at once: those of all tokens, or the rows of the messages from the
/// ranks that divide the experts.
std::int64_t expert_slots(const RunPlan& plan) {
    if (!plan.model.experts) return 0;
    const ExpertsSpec& experts = *plan.model.experts;
    const std::int64_t ranks = plan.mesh.expert;
    const std::int64_t sent =
        experts.message_rows(plan.micro_batch_size * plan.stream_length(), ranks);
    return std::max(plan.micro_batch_size * plan.local_length() * experts.per_token, ranks * sent);
}

}  // namespace

ModelContext model_context(Backend& backend, const Mesh& mesh, Memory& memory,
                           const RunPlan& plan) {
    return {.backend = backend,
            .mesh = mesh,
            .memory = memory,
            .shape = plan.local,
            .compute = plan.compute,
            .fp8_weight_gradients = plan.fp8_weight_gradients,
            .seed = plan.seed,
            .head_rows = plan.head_rows,
            .sequences = plan.micro_batch_size,
            .sequence_parallel = plan.sequence_parallel,
            .tensor_pieces = plan.tensor_pieces,
            .pieces_by_rank = plan.pieces_by_rank && plan.tensor_pieces > 1,
            .stream_rows = stream_rows(plan, mesh.place()),
            .batch_rows = rows_of(slices_of(plan, mesh.place())),
            .context_method = plan.context_method,
            .exchange_pieces = plan.exchange_pieces()};
}

LayoutRequest layout_request(const RunPlan& plan, const MeshPlace& place) {
    return {.model = plan.model,
            .chunks = chunk_parts(plan, place.pp),
            .mesh = plan.mesh,
            .tensor_rank = place.tp,
            .expert_rank = group_on(Axis::experts, rank_of(place, plan.mesh), plan.mesh).rank,
            .sequence_parallel = plan.sequence_parallel,
            .split_tied_embedding = has_tied_ends(plan)};
}

QuantisedFormat quantised_format(const RunPlan& plan) {
    if (plan.int8_frozen) return QuantisedFormat::int8;
    if (!plan.nf4_frozen) return QuantisedFormat::none;
    return plan.nf4_double ? QuantisedFormat::nf4_double : QuantisedFormat::nf4;
}

std::vector<GptChunk> make_chunks(const ModelContext& context, Parameters& parameters,
                                  const RunPlan& plan) {
    const std::vector<ChunkPart> parts = chunk_parts(plan, context.mesh.place().pp);
    std::vector<GptChunk> chunks;
    for (std::size_t i = 0; i < parts.size(); ++i)
        chunks.emplace_back(context, parameters, parts[i], parameters.layout().chunks[i]);
    return chunks;
}

StreamSlice stream_slice(const RunPlan& plan, const MeshPlace& place) {
    if (!plan.sequence_parallel) return {};
    return {.index = place.tp, .count = plan.mesh.tensor, .stripes = plan.stream_stripes()};
}

Stage make_stage(const ModelContext& context, const std::vector<GptChunk>& chunks,
                 const Parameters& parameters, const RunPlan& plan, StageMemory memory) {
    const MeshPlace& place = context.mesh.place();
    return {.context = context,
            .chunks = chunks,
            .parameters = parameters,
            .memory = std::move(memory),
            .seq_length = plan.seq_length,
            .slices = slices_of(plan, place),
            .stream = stream_slice(plan, place)};
}

MeasureCounts step_counts(const RunPlan& plan) {
    return {.layers = plan.model.layers,
            .expert_layers = plan.model.experts ? plan.model.layers : 0};
}

MeasureCounts evaluation_counts(const RunPlan& plan) {
    MeasureCounts counts = step_counts(plan);
    counts.sources = plan.validation_sources;
    return counts;
}

StepRef reserve_step_state(Memory& memory, std::int64_t slots, const MeasureCounts& counts) {
    Arena& arena = memory[MemoryUse::batch];
    return {.state = arena.allocate(DType::u8, {state_bytes(counts)}),
            .first_sequence = arena.allocate(DType::i64, {slots}),
            .counts = counts};
}

StepState read_state(Backend& backend, const StepRef& state) {
    StepState result{};
    backend.download(std::as_writable_bytes(std::span(&result, 1)), state.with({}).state);
    return result;
}

StepNumbers step_numbers(std::span<const std::byte> bytes, const MeshShape& mesh) {
    StepNumbers numbers;
    std::memcpy(&numbers.state, bytes.data(), sizeof numbers.state);
    bytes = bytes.subspan(sizeof numbers.state);
    numbers.measures.resize(bytes.size() / sizeof(WeightedSum));
    if (!bytes.empty()) std::memcpy(numbers.measures.data(), bytes.data(), bytes.size());
    const auto copies = static_cast<double>(copies_in_measures(mesh));
    for (WeightedSum& measure : numbers.measures)
        measure = {.sum = measure.sum / copies, .weight = measure.weight / copies};
    return numbers;
}

BatchShape batch_shape(const RunPlan& plan, const MeshPlace& place) {
    return {.seq_length = plan.seq_length,
            .micro_batch_size = plan.micro_batch_size,
            .data_rank = place.dp,
            .data_ranks = plan.mesh.data,
            .equal_counts = plan.equal_counts(),
            .vocab_size = plan.model.vocab,
            .virtual_tokens = plan.model.virtual_tokens(),
            .eod_id = plan.end_of_document.id,
            .eod_mask_loss = plan.end_of_document.mask_loss,
            .reset_at_eod = plan.end_of_document.reset,
            .sliding_window = plan.limits_attention() ? plan.model.sliding_window : std::nullopt,
            .masking = masking_of(plan)};
}

BatchMasks batch_masks(const RunPlan& plan) {
    return {.documents = plan.end_of_document.reset, .window = plan.limits_attention()};
}

OpLimits op_limits(const RunPlan& plan) {
    const ModelShape& model = plan.local;
    const ExpertsSpec experts = model.experts.value_or(ExpertsSpec());
    const std::int64_t shared = experts.shared ? experts.shared->ffn_hidden_size : 0;
    const std::int64_t inner = input_width(model.activation, std::max(model.ffn, shared));
    return {
        .compute = plan.compute,
        .sequences = plan.micro_batch_size,
        .seq_length =
            plan.context_method == ContextMethod::ring ? plan.local_length() : plan.seq_length,
        .hidden = model.hidden,
        .heads = model.heads,
        .groups = model.groups,
        .head_dim = model.head_dim,
        .widest = std::max({inner, model.hidden, (model.heads + 2 * model.groups) * model.head_dim,
                            model.prompt ? model.prompt->encoder_hidden : 0}),
        .shared_norm = model.qk_norm == QkNorm::all ? model.heads * model.head_dim : 0,
        .vocab = model.vocab,
        .head_rows = plan.head_rows,
        .experts = experts.count,
        .expert_slots = expert_slots(plan),
        .expert_width =
            std::max(input_width(model.activation, experts.ffn_hidden_size), model.hidden)};
}

void provide_backend_memory(Backend& backend, Memory& memory, const OpLimits& limits) {
    backend.use_scratch(
        memory[MemoryUse::scratch].allocate(DType::u8, {backend.scratch_bytes(limits)}));
    backend.use_staging(memory[MemoryUse::staging].allocate(DType::u8, {backend.staging_bytes()}));
}

void EvaluationSums::add(const EvaluationSums& other) {
    loss.add(other.loss);
    measures.resize(other.measures.size());
    for (std::size_t i = 0; i < measures.size(); ++i)
        measures[i].add(other.measures[i]);
}

EvaluationSums evaluate_batch(const ModelContext& context, const RunPlan& plan, Executor& executor,
                              const StepRef& state, const StepBatch& batch) {
    StepState given{};
    given.token_weight_sum = batch.weight_sum;
    context.backend.run(BeginStep{.step = state, .given = given});
    const Mesh& mesh = context.mesh;
    const PipelineShape pipeline = pipeline_of(plan, std::ssize(batch.microbatches));
    executor.evaluate(make_forward_schedule(pipeline, mesh.place().pp), batch.microbatches, state);
    share_sums(mesh, state);
    std::vector<std::byte> bytes(static_cast<std::size_t>(state.state.elements()));
    context.backend.download(bytes, state.state);
    StepNumbers numbers = step_numbers(bytes, mesh.shape());
    return {.loss = {numbers.state.loss_sum, numbers.state.token_weight_sum},
            .measures = std::move(numbers.measures)};
}

}  // namespace gptrain
