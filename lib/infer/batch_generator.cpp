#include "infer/batch_generator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "data/virtual_tokens.h"
#include "meter/meter_backend.h"

namespace gptrain {
namespace {

/// Texts follow each other in one batch: the ops see the longer of the two lengths.
RunPlan batch_plan(RunPlan plan, const BatchLimits& limits) {
    plan.micro_batch_size = 1;
    plan.seq_length = std::max(plan.model.virtual_tokens() + limits.positions, limits.tokens);
    return plan;
}

/// The largest step within the limits, with this many rows of logits.
std::vector<TextStep> largest_step(const BatchLimits& limits, std::int64_t logits) {
    std::vector<TextStep> steps;
    std::int64_t tokens = limits.tokens;
    for (std::int64_t place = 0; tokens > 0; ++place) {
        const std::int64_t count = std::min(tokens, limits.positions);
        steps.push_back({.place = place,
                         .before = limits.positions - count,
                         .tokens = std::vector<std::int32_t>(static_cast<std::size_t>(count)),
                         .logits = std::min(count, logits)});
        tokens -= count;
        logits -= steps.back().logits;
    }
    return steps;
}

/// For positions [1, count, G, D] of a cache, which may be stored head after head.
void copy_positions(Backend& backend, const Tensor& to, const Tensor& from) {
    if (to.contiguous()) return backend.copy(to, from);
    for (std::int64_t head = 0; head < to.size(2); ++head)
        backend.copy(to.slice(2, head, 1), from.slice(2, head, 1));
}

}  // namespace

BatchGenerator::BatchGenerator(Backend& backend, const Mesh& mesh, const RunPlan& plan,
                               const BatchLimits& limits, ActionListener& listener,
                               const std::optional<MemoryPlan>& memory)
    : plan_(batch_plan(plan, limits)),
      limits_(limits),
      listener_(listener),
      model_(backend, mesh, plan_, memory),
      batch_(model_.memory()[MemoryUse::batch], plan_, limits.tokens),
      schedule_(make_forward_schedule(pipeline_of(plan_, 1), mesh.place().pp)) {
    Memory& all = model_.memory();
    for (std::int64_t i = 0; i < schedule_.buffers; ++i) {
        buffers_.push_back(all[MemoryUse::boundaries].allocate(
            plan_.compute, {limits.tokens, plan_.model.hidden}));
    }
    Arena& saved = all[MemoryUse::saved];
    const std::int64_t capacity = checked_mul(limits.texts, place_length());
    for (const GptChunk& chunk : model_.chunks())
        caches_.push_back(chunk.reserve_caches(saved, 1, capacity));
    const bool has_head = mesh.head_stage() == mesh.place().pp;
    if (has_head) logits_ = LogitRows(saved, model_.context(), limits.logits);
    if (mesh.model().rank() == 0 && mesh.head_rank() != 0) {
        received_ = saved.allocate(
            DType::f32, {limits.logits, mesh.tp().size() * model_.context().shape.vocab});
    }
}

BatchGenerator::Rows BatchGenerator::rows_of(std::span<const TextStep> steps) const {
    Rows rows;
    std::int64_t end = 0;
    for (const TextStep& step : steps) {
        const std::int64_t count = std::ssize(step.tokens);
        GPTRAIN_CHECK(count > 0 && step.before + count <= place_length() &&
                      step.place < limits_.texts && step.logits <= count);
        rows.texts.push_back({.begin = end,
                              .count = count,
                              .cache_begin = step.place * place_length(),
                              .before = step.before});
        end += count;
        for (std::int64_t row = end - step.logits; row < end; ++row)
            rows.logits.push_back(row);
    }
    GPTRAIN_CHECK(end > 0 && end <= limits_.tokens && std::ssize(rows.logits) <= limits_.logits);
    return rows;
}

Batch BatchGenerator::upload(std::span<const TextStep> steps, const Rows& rows) const {
    std::vector<std::int32_t> tokens;
    for (const TextStep& step : steps)
        tokens.insert(tokens.end(), step.tokens.begin(), step.tokens.end());
    std::vector<std::int32_t> positions(tokens.size());
    for (const TextRows& text : rows.texts) {
        const auto begin = positions.begin() + text.begin;
        std::iota(begin, begin + text.count, narrow<std::int32_t>(text.before));
    }
    return batch_.upload(model_.context().backend, {1, std::ssize(tokens)}, tokens,
                         std::move(positions));
}

void BatchGenerator::begin() {
    begun_ = true;
    const std::int64_t count = plan_.model.virtual_tokens();
    for (std::int64_t place = 0; place < limits_.texts; ++place) {
        for (std::int64_t at = 0; at < count; at += limits_.tokens) {
            TextStep step = {.place = place, .before = at, .tokens = {}, .logits = 0};
            step.tokens.resize(static_cast<std::size_t>(std::min(limits_.tokens, count - at)));
            fill_virtual_ids(step.tokens, at, count);
            pass({&step, 1}, {});
        }
    }
}

void BatchGenerator::run(std::span<const TextStep> steps, const TakeLogits& take) {
    const std::int64_t before = plan_.model.virtual_tokens();
    if (before == 0) return pass(steps, take);
    if (!begun_) begin();
    std::vector<TextStep> shifted(steps.begin(), steps.end());
    for (TextStep& step : shifted)
        step.before += before;
    pass(shifted, take);
}

void BatchGenerator::copy_place(std::int64_t from, std::int64_t to, std::int64_t count) {
    GPTRAIN_CHECK(from != to && from >= 0 && from < limits_.texts && to < limits_.texts);
    const auto positions = [&](const Tensor& cache, std::int64_t place) {
        return cache.slice(1, place * place_length(), count);
    };
    Backend& backend = model_.context().backend;
    for (const std::vector<KvCache>& chunk : caches_) {
        for (const KvCache& cache : chunk) {
            copy_positions(backend, positions(cache.k, to), positions(cache.k, from));
            copy_positions(backend, positions(cache.v, to), positions(cache.v, from));
        }
    }
}

void BatchGenerator::pass(std::span<const TextStep> steps, const TakeLogits& take) {
    const Rows rows = rows_of(steps);
    for (const TextStep& step : steps)
        if (step.copied_from) copy_place(*step.copied_from, step.place, step.before);
    const Batch batch = upload(steps, rows);
    const std::int64_t count = std::ssize(rows.logits);
    const Mesh& mesh = model_.context().mesh;
    const bool has_head = mesh.head_stage() == mesh.place().pp;
    const Tensor logits = has_head && count > 0 ? logits_.own(count) : Tensor();
    std::vector<Tensor> buffers;
    for (const Tensor& buffer : buffers_)
        buffers.push_back(buffer.slice(0, 0, batch.tokens()));

    ActionRunner runner(model_.context(), buffers);
    runner.listeners().add(listener_);
    runner.run(schedule_, [&](std::size_t index, const Boundary& ends) {
        const auto chunk = static_cast<std::size_t>(schedule_.actions[index].chunk);
        model_.chunks()[chunk].logits(
            {.batch = batch, .step = {}, .training = false, .texts = rows.texts}, ends, rows.logits,
            logits, &caches_[chunk]);
    });
    if (count > 0) deliver(steps, count, take);
}

void BatchGenerator::deliver(std::span<const TextStep> steps, std::int64_t rows,
                             const TakeLogits& take) {
    const Mesh& mesh = model_.context().mesh;
    const int head = mesh.head_stage();
    Tensor logits;
    if (mesh.place().pp == head) logits = logits_.gather(rows);
    if (mesh.tp().rank() != 0) return;
    if (head != 0 && mesh.place().pp == head) mesh.channel({head, 0}).send(logits, 1).wait();
    if (mesh.place().pp != 0) return;
    if (head != 0) {
        logits = received_.slice(0, 0, rows);
        mesh.channel({head, 0}).recv(logits, 0).wait();
    }
    host_logits_.resize(static_cast<std::size_t>(logits.elements()));
    model_.context().backend.download(std::as_writable_bytes(std::span(host_logits_)), logits);
    std::span<const float> left(host_logits_);
    const auto vocab = static_cast<std::size_t>(plan_.model.vocab);
    for (std::size_t step = 0; step < steps.size(); ++step) {
        for (std::int64_t i = 0; i < steps[step].logits; ++i) {
            take(step, left.first(vocab));
            left = left.subspan(static_cast<std::size_t>(logits.size(1)));
        }
    }
}

MemoryPlan measure_batch_generator(const RunPlan& plan, const MeshPlace& place,
                                   const BackendMemory& needs, const BatchLimits& limits) {
    MeterBackend meter(needs);
    const Mesh mesh = meter_mesh(plan, place);
    ActionListeners nobody;
    BatchGenerator generator(meter, mesh, plan, limits, nobody);
    // Either may take the most: logits of all tokens but one need a copy of their rows; those of
    // all tokens may be so many that an int8 head is widened.
    for (const std::int64_t most : {limits.tokens, std::max<std::int64_t>(limits.tokens - 1, 1)})
        generator.run(largest_step(limits, std::min(limits.logits, most)),
                      [](std::size_t, std::span<const float>) {});
    return generator.model().memory().peaks();
}

}  // namespace gptrain
