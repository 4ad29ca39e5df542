#include "infer/generator.h"

#include <algorithm>
#include <numeric>

namespace gptrain {
namespace {

std::int64_t head_stage(const RunPlan& plan) {
    return head_place(pipeline_of(plan, 1)).stage;
}

}  // namespace

Generator::Generator(Backend& backend, const Mesh& mesh, const RunPlan& plan,
                     std::int64_t most_at_once, ActionListener& listener,
                     const std::optional<MemoryPlan>& memory)
    : plan_(plan),
      listener_(listener),
      model_(backend, mesh, plan, memory),
      schedule_(make_forward_schedule(pipeline_of(plan, 1), mesh.place().pp)),
      most_at_once_(most_at_once),
      has_head_(head_stage(plan) == mesh.place().pp) {
    Memory& all = model_.memory();
    batch_ = reserve_batch(all[MemoryUse::batch], {1, most_at_once},
                           {.window = plan.limits_attention()});
    token_ = all[MemoryUse::batch].allocate(DType::i32, {1});
    for (std::int64_t i = 0; i < schedule_.buffers; ++i) {
        buffers_.push_back(
            all[MemoryUse::boundaries].allocate(plan.compute, {most_at_once, plan.model.hidden}));
    }
    Arena& saved = all[MemoryUse::saved];
    for (const GptChunk& chunk : model_.chunks())
        caches_.push_back(chunk.reserve_caches(saved, 1, plan.seq_length));
    if (!has_head_) return;
    logits_ = saved.allocate(plan.compute, {mesh.tp().size() * plan.local.vocab});
    logits_f32_ = saved.allocate(DType::f32, {plan.model.vocab});
}

Batch Generator::upload(std::span<const std::int32_t> tokens) const {
    Backend& backend = model_.context().backend;
    const std::int64_t count = std::ssize(tokens);
    Batch batch;
    batch.ids = batch_.ids.slice(1, 0, count);
    batch.positions = batch_.positions.slice(1, 0, count);
    batch.stream_positions = batch.positions;
    std::vector<std::int32_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), narrow<std::int32_t>(length_));
    backend.upload(batch.ids, std::as_bytes(tokens));
    backend.upload(batch.positions, std::as_bytes(std::span(positions)));
    if (batch_.first_in_window.empty()) return batch;
    batch.first_in_window = batch_.first_in_window.slice(1, 0, count);
    const auto before = narrow<std::int32_t>(*plan_.model.sliding_window - 1);
    for (std::int32_t& position : positions)
        position = std::max(position - before, 0);
    backend.upload(batch.first_in_window, std::as_bytes(std::span(positions)));
    return batch;
}

void Generator::choose_token(const Choose& choose) {
    const ModelContext& context = model_.context();
    Communicator& tp = context.mesh.tp();
    const std::int64_t rows = context.shape.vocab;
    tp.all_gather(logits_, logits_.slice(0, tp.rank() * rows, rows), 0).wait();
    if (tp.rank() != 0) return;
    context.backend.run(Cast{.to = logits_f32_, .from = logits_.slice(0, 0, plan_.model.vocab)});
    std::vector<float> logits(static_cast<std::size_t>(plan_.model.vocab));
    context.backend.download(std::as_writable_bytes(std::span(logits)), logits_f32_);
    const std::int32_t token = choose(logits);
    context.backend.upload(token_, std::as_bytes(std::span(&token, 1)));
}

void Generator::read(std::span<const std::int32_t> tokens) {
    const auto most = static_cast<std::size_t>(most_at_once_);
    for (; !tokens.empty(); tokens = tokens.subspan(std::min(most, tokens.size())))
        append(tokens.first(std::min(most, tokens.size())));
}

void Generator::move_to(std::int64_t length) {
    GPTRAIN_CHECK(length >= 0 && length <= plan_.seq_length);
    length_ = length;
    for (std::vector<KvCache>& caches : caches_)
        for (KvCache& cache : caches)
            cache.length = length;
}

void Generator::append(std::span<const std::int32_t> tokens) {
    const ModelContext& context = model_.context();
    const Batch batch = upload(tokens);
    std::vector<Tensor> rows;
    for (const Tensor& buffer : buffers_)
        rows.push_back(buffer.slice(0, 0, batch.tokens()));
    const std::int64_t vocab = context.shape.vocab;
    Tensor logits;
    if (has_head_) logits = logits_.slice(0, context.vocab_begin(), vocab).view({1, vocab});

    ActionRunner runner(context, rows);
    runner.listeners().add(listener_);
    runner.run(schedule_, [&](std::size_t index, const Boundary& ends) {
        const auto chunk = static_cast<std::size_t>(schedule_.actions[index].chunk);
        model_.chunks()[chunk].next_token(batch, caches_[chunk], ends, logits);
    });
    length_ += batch.tokens();
}

std::int32_t Generator::next_token(std::span<const std::int32_t> tokens, const Choose& choose) {
    read(tokens);
    if (has_head_) choose_token(choose);
    const ModelContext& context = model_.context();
    const Mesh& mesh = context.mesh;
    mesh.model().broadcast(token_, narrow<int>(head_stage(plan_) * mesh.tp().size())).wait();
    std::int32_t token = 0;
    context.backend.download(std::as_writable_bytes(std::span(&token, 1)), token_);
    return token;
}

}  // namespace gptrain
