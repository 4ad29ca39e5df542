#include "model/grad_sums.h"

namespace gptrain {

GradSums::GradSums(Backend& backend, const Mesh& mesh, const Parameters& parameters, bool shard)
    : backend_(backend), mesh_(mesh) {
    if (mesh.tp().size() * mesh.kv().size() * mesh.embedding_ends().size() == 1) return;
    for (const OwnedRange& range : owned_ranges(parameters.layout(), mesh.dp_cp(), shard)) {
        const Tensor grads = parameters.main_grads().slice(0, range.begin, range.shard.elements());
        switch (range.parameter->sum) {
            case GradSum::none: break;
            case GradSum::tp: over_tp_.push_back(grads); break;
            case GradSum::kv: over_kv_.push_back(grads); break;
            case GradSum::embedding_ends: over_embedding_ends_.push_back(grads); break;
        }
    }
}

void GradSums::sum_all(Arena& workspace) const {
    sum(over_tp_, mesh_.tp(), workspace);
    sum(over_kv_, mesh_.kv(), workspace);
    sum(over_embedding_ends_, mesh_.embedding_ends(), workspace);
}

void GradSums::sum(const std::vector<Tensor>& grads, Communicator& sharers,
                   Arena& workspace) const {
    if (grads.empty() || sharers.size() == 1) return;
    if (grads.size() == 1) {
        sharers.all_reduce(grads.front(), Reduce::sum).wait();
        return;
    }
    std::int64_t elements = 0;
    for (const Tensor& grad : grads)
        elements += grad.elements();
    const ArenaFrame frame(workspace);
    const Tensor message = workspace.allocate(DType::f32, {elements});
    const auto each = [&](const auto& copy) {
        std::int64_t begin = 0;
        for (const Tensor& grad : grads) {
            copy(grad, message.slice(0, begin, grad.elements()));
            begin += grad.elements();
        }
    };
    each([&](const Tensor& grad, const Tensor& part) { backend_.copy(part, grad); });
    sharers.all_reduce(message, Reduce::sum).wait();
    each([&](const Tensor& grad, const Tensor& part) { backend_.copy(grad, part); });
}

}  // namespace gptrain
