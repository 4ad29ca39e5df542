#include "answers/answer_cost.h"

#include "base/checked.h"
#include "infer/generator.h"

namespace gptrain {
namespace {

/// The time of `count` tokens that follow `before` others, once the tokens before are known.
StepTime time_tokens(const SearchContext& context, const RunPlan& plan, std::int64_t before,
                     std::int64_t count) {
    PipelineTraces traces = {
        .mesh = plan.mesh, .chunks = plan.virtual_stages, .stages = {}, .host_reads = true};
    for (std::int64_t stage = 0; stage < plan.mesh.pipeline; ++stage) {
        traces.stages.push_back(
            trace_tokens(plan, {.pp = narrow<int>(stage)}, context.needs, before, count));
    }
    StepTime time = time_step(traces, context.hardware);
    time.timeline = {};
    return time;
}

}  // namespace

RunPlan answer_plan(const SearchContext& context, const ParallelSpec& mesh,
                    const AnswerShape& shape) {
    RunSpec spec = context.spec;
    spec.parallel = mesh;
    spec.training.micro_batch_size = 1;
    RunPlan plan = make_plan(spec, context.target);
    plan.micro_batch_size = shape.batch;
    plan.seq_length = plan.model.virtual_tokens() + shape.prompt_tokens + shape.new_tokens;
    return plan;
}

AnswerCost answer_memory(const SearchContext& context, const RunPlan& plan,
                         const AnswerShape& shape) {
    AnswerCost cost = {.mesh = plan.mesh, .shape = shape, .next = {}};
    for (std::int64_t stage = 0; stage < plan.mesh.pipeline; ++stage) {
        const MeshPlace place = {.pp = narrow<int>(stage)};
        const GeneratorMemory memory =
            measure_generator(plan, place, context.needs, shape.prompt_tokens);
        const std::int64_t bytes =
            required_bytes(context, plan, place, answer_connections(plan), memory.memory);
        if (bytes <= cost.required_bytes) continue;
        cost.required_bytes = bytes;
        cost.cache_bytes = memory.cache_bytes;
    }
    return cost;
}

void time_answer(const SearchContext& context, const RunPlan& plan, AnswerCost& cost) {
    const AnswerShape& shape = cost.shape;
    cost.first_seconds = time_tokens(context, plan, 0, shape.prompt_tokens).seconds;
    if (shape.new_tokens == 1) return;
    cost.next = time_tokens(context, plan, shape.prompt_tokens + (shape.new_tokens - 2) / 2, 1);
}

}  // namespace gptrain
