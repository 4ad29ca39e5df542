#include "engine/forward_passes.h"

#include <utility>

namespace gptrain {
ForwardPasses::ForwardPasses(const ModelContext& context, const std::vector<GptChunk>& chunks,
                             const Parameters& parameters, const RunPlan& plan, const StepRef& step,
                             StageMemory memory, bool with_logits)
    : context_(context),
      chunks_(chunks),
      parameters_(parameters),
      plan_(plan),
      step_(step),
      memory_(std::move(memory)),
      with_logits_(with_logits) {
    Arena& arena = context.memory[MemoryUse::batch];
    const std::int64_t rows = plan.micro_batch_size * plan.local_length();
    scores_ = {.maximum = arena.allocate(DType::f32, {rows}),
               .sums = arena.allocate(DType::f32, {rows, 2})};
    if (with_logits && context.mesh.head_stage() == place().pp)
        logits_ = LogitRows(arena, context, plan.micro_batch_size);
}

void ForwardPasses::score(std::span<const Microbatch> microbatches, std::int64_t length,
                          ActionListener& listener, const TakeScores& take) const {
    const Stage stage = stage_for(length);
    const std::int64_t rows = plan_.micro_batch_size * length_of(stage.slices);
    const TargetScores scores = {.maximum = scores_.maximum.slice(0, 0, rows),
                                 .sums = scores_.sums.slice(0, 0, rows)};
    std::vector<float> maximum(static_cast<std::size_t>(rows));
    std::vector<float> sums(maximum.size() * 2);
    run(microbatches, stage, listener, [&](const ForwardAction& action) {
        action.chunk.score(action.pass, action.ends, scores);
        if (!action.chunk.has_head()) return;
        context_.backend.download(std::as_writable_bytes(std::span(maximum)), scores.maximum);
        context_.backend.download(std::as_writable_bytes(std::span(sums)), scores.sums);
        take(action.microbatch, maximum, sums);
    });
}

void ForwardPasses::logits(std::span<const Microbatch> microbatches, const ChosenRows& rows,
                           std::int64_t length, ActionListener& listener,
                           const TakeLogits& take) const {
    run(microbatches, stage_for(length), listener, [&](const ForwardAction& action) {
        const std::vector<std::int64_t>& chosen = rows[action.microbatch];
        const std::int64_t count = action.chunk.has_head() ? std::ssize(chosen) : 0;
        Tensor own;
        if (count > 0) own = logits_.own(count);
        action.chunk.logits(action.pass, action.ends, chosen, own);
        if (count == 0) return;
        logits_.download(count, plan_.model.vocab,
                         [&](std::size_t row, std::span<const float> logits) {
                             take(action.microbatch, row, logits);
                         });
    });
}

void ForwardPasses::run(std::span<const Microbatch> microbatches, const Stage& stage,
                        ActionListener& listener, const Executor::ForwardWork& work) const {
    Executor executor(stage, step_);
    executor.listen(listener);
    const PipelineShape pipeline = pipeline_of(plan_, std::ssize(microbatches));
    executor.forward(make_forward_schedule(pipeline, place().pp), microbatches, work);
}

Stage ForwardPasses::stage_for(std::int64_t length) const {
    RunPlan plan = plan_;
    plan.seq_length = length;
    Stage stage = make_stage(context_, chunks_, parameters_, plan, memory_);
    if (length == plan_.seq_length) return stage;
    const std::int64_t sequences = plan_.micro_batch_size;
    for (Batch& batch : stage.memory.batches)
        batch = shortened(batch, {sequences, length});
    for (Tensor& buffer : stage.memory.buffers)
        buffer = buffer.slice(0, 0, sequences * length);
    return stage;
}

void run_for_memory(const ForwardPasses& passes, std::int64_t microbatches) {
    const RunPlan& plan = passes.plan();
    const std::vector<Microbatch> batch(static_cast<std::size_t>(microbatches));
    ActionListeners nobody;
    passes.score(batch, plan.seq_length, nobody, [](auto&&...) {});
    if (!passes.with_logits()) return;
    std::vector<std::int64_t> ends;
    for (std::int64_t i = 1; i <= plan.micro_batch_size; ++i)
        ends.push_back(i * plan.local_length() - 1);
    passes.logits(batch, ForwardPasses::ChosenRows(batch.size(), ends), plan.seq_length, nobody,
                  [](auto&&...) {});
}

}  // namespace gptrain
