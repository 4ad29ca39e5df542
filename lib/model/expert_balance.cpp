#include "model/expert_balance.h"

namespace gptrain {

Tensor ExpertBalance::reserve(Memory& memory, const ModelShape& model) {
    if (!model.experts) return {};
    return memory[MemoryUse::batch].allocate(DType::f64, {model.layers, model.experts->count});
}

ExpertBalance::ExpertBalance(const ModelContext& context, const Parameters& parameters)
    : context_(context) {
    if (!context.shape.experts) return;
    for (std::int64_t layer = 0; layer < context.shape.layers; ++layer) {
        const std::string router = text("h.", layer, ".router");
        const GroupTensors bias = parameters.group(router + ".balance");
        // A frozen router keeps its choice.
        if (bias.present() && parameters.group(router + ".weight").trained())
            biases_.push_back({.layer = layer, .values = bias.weight});
    }
}

void ExpertBalance::begin() const {
    if (context_.expert_counts.empty()) return;
    context_.backend.run(Fill{.x = context_.expert_counts, .value = 0});
}

void ExpertBalance::measure(const StepRef& step) const {
    const Tensor& counts = context_.expert_counts;
    if (counts.empty()) return;
    const Mesh& mesh = context_.mesh;
    if (context_.sequence_parallel) {
        // The ranks of tp have counted their slices of the stream.
        for (const Tensor& part :
             {counts, step.measure(Measure::router_loss), step.measure(Measure::router_entropy)})
            mesh.tp().all_reduce(part, Reduce::sum).wait();
    }
    mesh.dp_cp().all_reduce(counts, Reduce::sum).wait();
    if (mesh.experts().size() > 1) {
        // All ranks decide alike.
        for (const Axis axis : {Axis::dp_cp, Axis::model})
            mesh[axis].all_reduce(step.unplaced_rows(), Reduce::sum).wait();
    }
    // share_sums adds what all of these ranks have.
    if (mesh.dp_cp().rank() > 0) return;
    context_.backend.run(MeasureLoads{.counts = counts,
                                      .loads = step.measure(Measure::expert_load),
                                      .unused = step.measure(Measure::unused_experts)});
}

void ExpertBalance::update(const StepRef& step) const {
    for (const Bias& bias : biases_) {
        const Tensor counts = context_.expert_counts.slice(0, bias.layer, 1);
        context_.backend.run(UpdateBalance{.counts = counts.view({bias.values.elements()}),
                                           .balance = bias.values,
                                           .rate = *context_.shape.experts->balance.bias_rate,
                                           .step = step});
    }
}

}  // namespace gptrain
