// The weights of a chunk in the compute dtype and their fp32 gradients, as two flat buffers.
#pragma once

#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>

#include "backend/backend.h"
#include "backend/memory.h"
#include "comm/communicator.h"
#include "model/layout.h"

namespace gptrain {

/// A product group as ops use it.
struct GroupTensors {
    Tensor weight;         ///< compute dtype; empty where the model has no such group (no bias)
    Float8Matrix weight8;  ///< instead of it in a group that is multiplied in 8 bits
    Tensor grad;           ///< fp32 main_grad; empty too where only inference was asked for
    std::int64_t outputs() const { return shape()[0]; }
    std::int64_t inputs() const { return shape()[1]; }
    bool given() const { return !weight.empty() || !weight8.empty(); }

private:
    const Shape& shape() const { return (weight8.empty() ? weight : weight8.rows).shape(); }
};

class Parameters {
public:
    enum class Use { training, inference };

    Parameters(Memory& memory, ParameterLayout layout, DType compute, Use use);
    Parameters(const Parameters&) = delete;
    Parameters& operator=(const Parameters&) = delete;

    const ParameterLayout& layout() const { return layout_; }
    /// Flat, layout().elements long, compute dtype. Groups that are multiplied in 8 bits hold these
    /// values only from an update to the next `to_float8`, which puts their 8-bit form, both ways,
    /// in the same place.
    const Tensor& weights() const { return weights_; }
    /// Weights in a flat range are on their way from the ranks that updated them. Ranges that are
    /// on their way do not overlap.
    void arriving(const Bucket& range, Pending pending);
    /// Before weights in a flat range are read: waits for those that are on their way.
    void await(const Bucket& range);
    void await_all() { await({0, layout_.elements}); }
    bool all_here() const { return arriving_.empty(); }
    bool multiplies_in_float8() const { return !scales_.empty(); }
    /// After every update of the weights. Takes memory for one group in the workspace.
    void to_float8(Backend& backend, Arena& workspace) const;
    const Tensor& main_grads() const { return main_grads_; }
    /// The group of that name; empty tensors if the layout has none.
    GroupTensors group(std::string_view name) const;
    /// Where the group of that name lies in the flat buffers.
    Bucket range_of(std::string_view name) const;

private:
    const ProductGroup* find(std::string_view name) const;
    Tensor flat(const ProductGroup& group, const Tensor& buffer) const {
        return buffer.slice(0, group.begin, group.shape.elements());
    }
    Float8Matrix float8(const ProductGroup& group) const;

    ParameterLayout layout_;
    std::unordered_map<std::string_view, const ProductGroup*> groups_;  ///< of layout_, by name
    Tensor weights_;
    Tensor scales_;  ///< fp32, one for each group; empty where none is multiplied in 8 bits
    Tensor main_grads_;
    struct Arriving {
        std::int64_t end;
        Pending pending;
    };
    /// By where the range begins, the last one first: the order in which they were sent.
    std::map<std::int64_t, Arriving, std::greater<>> arriving_;
};

}  // namespace gptrain
