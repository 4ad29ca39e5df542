#include "model/grad_sums.h"

namespace gptrain {

GradSums::GradSums(Backend& backend, const Mesh& mesh, const Parameters& parameters)
    : backend_(backend), mesh_(mesh) {
    for (const OwnedRange& range : owned_ranges(parameters.layout(), mesh)) {
        const std::optional<Axis> axis = range.parameter->also_sums;
        if (!axis || mesh[*axis].size() == 1) continue;
        grads_[*axis].push_back(parameters.owned_grads(range.range()));
    }
}

void GradSums::sum_all(Arena& workspace) const {
    for (const auto& [axis, grads] : grads_)
        sum(grads, mesh_[axis], workspace);
}

void GradSums::sum(const std::vector<Tensor>& grads, Communicator& sharers,
                   Arena& workspace) const {
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
