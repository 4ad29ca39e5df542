#include "kernel_times/step_work.h"

#include "base/text.h"
#include "cuda/needs.h"
#include "planner/mesh_cost.h"
#include "spec/make_plan.h"
#include "spec/spec_settings.h"

namespace gptrain::test {
namespace {

RunPlan plan_of(const ModelSize& size) {
    const auto set = [](std::string_view key, std::int64_t value) { return text(key, "=", value); };
    const RunSpec spec = load_run_spec(
        GPTRAIN_SOURCES "/configs/gpt2-124m.yaml",
        {"device=cuda", "precision.compute=bf16", "recompute=none",
         set("model.num_layers", size.layers), set("model.hidden_size", size.hidden),
         set("model.num_attention_heads", size.heads),
         set("model.max_position_embeddings", size.length), set("training.seq_length", size.length),
         set("training.micro_batch_size", size.sequences),
         set("training.global_batch_size", size.sequences)});
    return make_plan(spec, {.world_size = 1, .cuda = true, .dry_run = true});
}

}  // namespace

std::string ModelSize::head_size() const {
    return text(head_dim(), " x ", length);
}

StepWork::StepWork(const ModelSize& size) : plan_(plan_of(size)) {
    const StepTrace trace = trace_stages(plan_, cuda::backend_memory()).front();
    for (const OpWork& op : trace.ops)
        ops_.push_back({op, 0});
    for (const StepTrace::Part& part : trace.parts) {
        for (const TraceEvent& event : trace.bodies[static_cast<std::size_t>(part.body)]) {
            if (event.kind == TraceEvent::Kind::op)
                ops_[static_cast<std::size_t>(event.index)].count += 1;
        }
    }
}

double StepWork::bytes(std::string_view name) const {
    double all = 0;
    for (const auto& [op, count] : ops_)
        all += op.name == name ? op.bytes * count : 0;
    return all;
}

double StepWork::total(double OpWork::*bytes) const {
    double all = 0;
    for (const auto& [op, count] : ops_)
        all += op.*bytes * count;
    return all;
}

bool is_of_head(const OpWork& op, const RunPlan& plan) {
    const std::int64_t features = op.name == "linear_forward"      ? op.cols
                                  : op.name == "linear_input_grad" ? op.length
                                                                   : op.rows;
    return op.kind == OpWork::Kind::gemm && features >= plan.model.vocab;
}

}  // namespace gptrain::test
