#include "infer/generator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "data/virtual_tokens.h"
#include "meter/meter_backend.h"
#include "meter/meter_communicator.h"

namespace gptrain {

Generator::Generator(Backend& backend, const Mesh& mesh, const RunPlan& plan,
                     std::int64_t max_at_once, ActionListener& listener,
                     const std::optional<MemoryPlan>& memory)
    : plan_(plan),
      listener_(listener),
      model_(backend, mesh, plan, memory),
      batch_(model_.memory()[MemoryUse::batch], plan,
             checked_mul(plan.micro_batch_size, max_at_once)),
      schedule_(make_forward_schedule(pipeline_of(plan, 1), mesh.place().pp)),
      max_at_once_(max_at_once),
      has_head_(mesh.head_stage() == mesh.place().pp) {
    Memory& all = model_.memory();
    const std::int64_t sequences = plan.micro_batch_size;
    const std::int64_t rows = sequences * max_at_once;
    tokens_ = all[MemoryUse::batch].allocate(DType::i32, {sequences});
    for (std::int64_t i = 0; i < schedule_.buffers; ++i) {
        buffers_.push_back(
            all[MemoryUse::boundaries].allocate(plan.compute, {rows, plan.model.hidden}));
    }
    Arena& saved = all[MemoryUse::saved];
    for (const GptChunk& chunk : model_.chunks())
        caches_.push_back(chunk.reserve_caches(saved, sequences, plan.seq_length));
    if (has_head_) logits_ = LogitRows(saved, model_.context(), sequences);
}

Batch Generator::upload(std::span<const std::int32_t> tokens, std::int64_t first) const {
    const std::int64_t sequences = plan_.micro_batch_size;
    const std::int64_t length = div_exact(std::ssize(tokens), sequences);
    std::vector<std::int32_t> positions(tokens.size());
    for (auto begin = positions.begin(); begin != positions.end(); begin += length)
        std::iota(begin, begin + length, narrow<std::int32_t>(first));
    return batch_.upload(model_.context().backend, {sequences, length}, tokens,
                         std::move(positions));
}

void Generator::choose_tokens(const Choose& choose) {
    std::vector<std::int32_t> tokens;
    logits_.download(
        plan_.micro_batch_size, plan_.model.vocab,
        [&](std::size_t, std::span<const float> logits) { tokens.push_back(choose(logits)); });
    if (tokens.empty()) return;
    model_.context().backend.upload(tokens_, std::as_bytes(std::span(tokens)));
}

void Generator::read(std::span<const std::int32_t> tokens) {
    GPTRAIN_CHECK(plan_.micro_batch_size == 1);
    const auto most = static_cast<std::size_t>(max_at_once_);
    for (; !tokens.empty(); tokens = tokens.subspan(std::min(most, tokens.size())))
        append(tokens.first(std::min(most, tokens.size())));
}

void Generator::move_to(std::int64_t length) {
    const std::int64_t cached = plan_.model.virtual_tokens() + length;
    GPTRAIN_CHECK(cached >= 0 && cached <= plan_.seq_length);
    length_ = length;
    for (std::vector<KvCache>& caches : caches_)
        for (KvCache& cache : caches)
            cache.length = cached;
}

void Generator::begin() {
    const std::int64_t count = plan_.model.virtual_tokens();
    if (begun_ || count == 0) return;
    begun_ = true;
    const std::int64_t length = length_;
    move_to(-count);
    std::vector<std::int32_t> ids;
    for (std::int64_t at = 0; at < count; at += max_at_once_) {
        const std::int64_t part = std::min(max_at_once_, count - at);
        ids.resize(static_cast<std::size_t>(plan_.micro_batch_size * part));
        for (auto rest = std::span(ids); !rest.empty();
             rest = rest.subspan(static_cast<std::size_t>(part)))
            fill_virtual_ids(rest.first(static_cast<std::size_t>(part)), at, count);
        pass(ids, at);
    }
    move_to(length);
}

void Generator::append(std::span<const std::int32_t> tokens) {
    begin();
    pass(tokens, plan_.model.virtual_tokens() + length_);
    length_ += div_exact(std::ssize(tokens), plan_.micro_batch_size);
}

void Generator::pass(std::span<const std::int32_t> tokens, std::int64_t first) {
    const ModelContext& context = model_.context();
    const Batch batch = upload(tokens, first);
    std::vector<Tensor> rows;
    for (const Tensor& buffer : buffers_)
        rows.push_back(buffer.slice(0, 0, batch.tokens()));
    Tensor logits;
    if (has_head_) logits = logits_.own(plan_.micro_batch_size);
    std::vector<std::int64_t> last;  // token of each sequence
    for (std::int64_t end = batch.seq_length(); end <= batch.tokens(); end += batch.seq_length())
        last.push_back(end - 1);

    ActionRunner runner(context, rows);
    runner.listeners().add(listener_);
    runner.run(schedule_, [&](std::size_t index, const Boundary& ends) {
        const auto chunk = static_cast<std::size_t>(schedule_.actions[index].chunk);
        model_.chunks()[chunk].logits({.batch = batch, .step = {}, .training = false}, ends, last,
                                      logits, &caches_[chunk]);
    });
}

std::vector<std::int32_t> Generator::next_tokens(std::span<const std::int32_t> tokens,
                                                 const Choose& choose) {
    append(tokens);
    if (has_head_) choose_tokens(choose);
    const ModelContext& context = model_.context();
    const Mesh& mesh = context.mesh;
    mesh.model().broadcast(tokens_, mesh.head_rank()).wait();
    std::vector<std::int32_t> next(static_cast<std::size_t>(plan_.micro_batch_size));
    context.backend.download(std::as_writable_bytes(std::span(next)), tokens_);
    return next;
}

std::int64_t Generator::cache_bytes() const {
    std::int64_t bytes = 0;
    for (const std::vector<KvCache>& chunk : caches_) {
        for (const KvCache& cache : chunk)
            bytes += cache.k.bytes() + cache.v.bytes();
    }
    return bytes;
}

namespace {

/// Passes `count` tokens of each sequence to a generator on the meter.
void pass_tokens(Generator& generator, const RunPlan& plan, std::int64_t count) {
    const std::vector<std::int32_t> tokens(
        static_cast<std::size_t>(checked_mul(plan.micro_batch_size, count)));
    generator.next_tokens(tokens, [](std::span<const float>) { return 0; });
}

}  // namespace

GeneratorMemory measure_generator(const RunPlan& plan, const MeshPlace& place,
                                  const BackendMemory& needs, std::int64_t prompt_tokens) {
    MeterBackend meter(needs);
    const Mesh mesh = meter_mesh(plan, place);
    ActionListeners nobody;
    Generator generator(meter, mesh, plan, prompt_tokens, nobody);
    pass_tokens(generator, plan, prompt_tokens);
    return {.memory = generator.model().memory().peaks(), .cache_bytes = generator.cache_bytes()};
}

StepTrace trace_tokens(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs,
                       std::int64_t before, std::int64_t count) {
    MeterBackend meter(needs);
    TraceRecorder recorder;
    meter.listen(recorder);
    const Mesh mesh(plan.mesh, place, answer_connections(plan),
                    observed(meter_communicators(), recorder));
    Generator generator(meter, mesh, plan, std::max(before, count), recorder);
    generator.begin();
    if (before > 0) pass_tokens(generator, plan, before);
    recorder.begin();
    pass_tokens(generator, plan, count);
    return recorder.take();
}

}  // namespace gptrain
