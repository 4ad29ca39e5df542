#include "infer/logits.h"

#include "infer/generator.h"
#include "meter/meter_backend.h"

namespace gptrain {
namespace {

RunPlan fp32_plan(RunPlan plan, std::int64_t tokens) {
    plan.compute = DType::f32;
    plan.fp8 = plan.fp8_blocks = plan.fp8_weight_gradients = false;
    plan.micro_batch_size = 1;
    plan.seq_length = plan.model.virtual_tokens() + tokens;
    return plan;
}

}  // namespace

MemoryPlan logits_memory(const Backend& backend, const Mesh& mesh, const RunPlan& plan,
                         std::int64_t tokens) {
    MeterBackend meter(memory_of(backend));
    const RunPlan exact = fp32_plan(plan, tokens);
    const Mesh metered = meter_mesh(exact, mesh.place());
    ActionListeners nobody;
    Generator generator(meter, metered, exact, 1, nobody);
    const std::int32_t id = 0;
    generator.next_token({&id, 1}, [](std::span<const float>) { return 0; });
    return generator.model().memory().peaks();
}

std::vector<float> compute_logits(Backend& backend, const Mesh& mesh, const RunPlan& plan,
                                  std::span<const std::int32_t> ids,
                                  const std::function<void(InferenceModel&)>& load) {
    const RunPlan exact = fp32_plan(plan, std::ssize(ids));
    ActionListeners nobody;
    Generator generator(backend, mesh, exact, 1, nobody,
                        logits_memory(backend, mesh, plan, std::ssize(ids)));
    load(generator.model());
    std::vector<float> all;
    for (const std::int32_t id : ids) {
        generator.next_token({&id, 1}, [&](std::span<const float> logits) {
            all.insert(all.end(), logits.begin(), logits.end());
            return 0;
        });
    }
    return all;
}

}  // namespace gptrain
