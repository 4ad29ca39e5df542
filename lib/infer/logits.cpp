#include "infer/logits.h"

#include <span>
#include <utility>

#include "infer/generator.h"
#include "meter/meter_backend.h"

namespace gptrain {

LogitComputer::LogitComputer(Backend& backend, const Mesh& mesh, RunPlan plan,
                             std::vector<std::int32_t> ids)
    : backend_(backend), mesh_(mesh), plan_(std::move(plan)), ids_(std::move(ids)) {
    plan_.compute = DType::f32;
    plan_.fp8 = false;
    plan_.micro_batch_size = 1;
    plan_.seq_length = plan_.model.virtual_tokens() + std::ssize(ids_);
}

MemoryPlan LogitComputer::memory() const {
    MeterBackend meter(memory_of(backend_));
    const Mesh mesh = meter_mesh(plan_, mesh_.place());
    ActionListeners nobody;
    Generator generator(meter, mesh, plan_, 1, nobody);
    const std::int32_t id = 0;
    generator.next_token({&id, 1}, [](std::span<const float>) { return 0; });
    return generator.model().memory().peaks();
}

std::vector<float> LogitComputer::compute(const std::function<void(InferenceModel&)>& load) const {
    ActionListeners nobody;
    Generator generator(backend_, mesh_, plan_, 1, nobody, memory());
    load(generator.model());
    std::vector<float> all;
    for (const std::int32_t id : ids_) {
        generator.next_token({&id, 1}, [&](std::span<const float> logits) {
            all.insert(all.end(), logits.begin(), logits.end());
            return 0;
        });
    }
    return all;
}

}  // namespace gptrain
