#include "model/parameters.h"

#include <algorithm>
#include <utility>

namespace gptrain {

Parameters::Parameters(Memory& memory, ParameterLayout layout, DType compute, Use use)
    : layout_(std::move(layout)),
      weights_(memory[MemoryUse::weights].allocate(compute, {layout_.elements})) {
    if (use == Use::training) {
        main_grads_ = memory[MemoryUse::main_grads].allocate(DType::f32, {layout_.elements});
    }
}

const ProductGroup* Parameters::find(std::string_view name) const {
    const auto& groups = layout_.groups;
    const auto found = std::find_if(groups.begin(), groups.end(),
                                    [&](const ProductGroup& group) { return group.name == name; });
    return found == groups.end() ? nullptr : &*found;
}

GroupTensors Parameters::group(std::string_view name) const {
    const ProductGroup* found = find(name);
    if (found == nullptr) return {};
    const auto part = [&](const Tensor& flat) {
        if (flat.empty()) return Tensor();
        return flat.slice(0, found->begin, found->shape.elements()).view(found->shape);
    };
    return {part(weights_), part(main_grads_)};
}

std::int64_t Parameters::group_end(std::string_view name) const {
    const ProductGroup* found = find(name);
    GPTRAIN_CHECK(found != nullptr, "no parameters named ", name);
    return found->begin + found->shape.elements();
}

}  // namespace gptrain
