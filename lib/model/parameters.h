// The weights of a chunk in the compute dtype and their fp32 gradients, as two flat buffers.
#pragma once

#include <string_view>

#include "backend/memory.h"
#include "model/layout.h"

namespace gptrain {

/// A product group as ops use it.
struct GroupTensors {
    Tensor weight;  ///< compute dtype; empty where the model has no such group (no bias)
    Tensor grad;    ///< fp32 main_grad; empty too where only inference was asked for
};

class Parameters {
public:
    enum class Use { training, inference };

    Parameters(Memory& memory, ParameterLayout layout, DType compute, Use use);

    const ParameterLayout& layout() const { return layout_; }
    /// Flat, layout().elements long.
    const Tensor& weights() const { return weights_; }
    const Tensor& main_grads() const { return main_grads_; }
    /// The group of that name; empty tensors if the layout has none.
    GroupTensors group(std::string_view name) const;
    /// Where the group of that name ends in the flat buffers.
    std::int64_t group_end(std::string_view name) const;

private:
    const ProductGroup* find(std::string_view name) const;

    ParameterLayout layout_;
    Tensor weights_;
    Tensor main_grads_;
};

}  // namespace gptrain
