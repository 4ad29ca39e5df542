// The weights of a rank in the compute dtype and their fp32 gradients, in one flat order.
// Everything reads them as views of ranges: whole ones, or those that the rank updates.
#pragma once

#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>

#include "backend/backend.h"
#include "backend/memory.h"
#include "comm/communicator.h"
#include "model/layout.h"
#include "model/placement.h"

namespace gptrain {

/// The tensors of a parameter group.
struct GroupTensors {
    Shape shape = {};  ///< of the whole group
    /// Compute dtype, a router's balance fp32; empty if the model lacks the group (no bias).
    Tensor weight;
    Fp8Matrix weight8;  ///< replaces `weight` in FP8 groups
    /// Replaces `weight` in int8 groups, except in the head, which has both.
    Int8Matrix int8 = {};
    std::vector<Nf4Matrix> nf4 = {};  ///< replaces `weight` in NF4 groups: their tensors
    Tensor grad;  ///< fp32 main_grad; empty for inference, and if the group is frozen
    Storage storage = {};
    /// Without experts.
    std::int64_t outputs() const { return shape[0]; }
    std::int64_t inputs() const { return shape[1]; }
    bool quantised() const { return !int8.empty() || !nf4.empty(); }
    bool present() const { return shape.rank() > 0; }
    bool trained() const { return !grad.empty(); }
};

class Parameters {
public:
    enum class Use { training, inference };

    /// With `one_by_one`, at most one range of weights is in flight at a time. Without a placement
    /// weights and gradients are whole.
    Parameters(Memory& memory, ParameterLayout layout, DType compute, Use use,
               bool one_by_one = false, std::optional<Placement> placement = {});
    Parameters(const Parameters&) = delete;
    Parameters& operator=(const Parameters&) = delete;

    const ParameterLayout& layout() const { return layout_; }
    /// The compute dtype.
    DType dtype() const { return weights_.dtype(); }
    /// The values that the model computes with. Those of a trained FP8 group are valid only from an
    /// update to the next `to_fp8`, which replaces them by their FP8 form, stored both row- and
    /// column-major; frozen FP8 groups keep both forms. Quantised groups have no values here.
    /// Balances are in fp32.
    /// Those that pass through windows (Placement) are valid while their unit is there.
    Tensor weights(const FlatRange& range) const {
        if (is_balance(range)) return balance(range);
        return view(weights_, gathered_weights_, placement_.weights.of(range), range);
    }
    /// The fp32 gradients that this rank computes; of trained parameters only.
    Tensor grads(const FlatRange& range) const {
        return view(main_grads_, gathered_grads_, placement_.grads.of(range), range);
    }
    /// The same within a range that this rank updates, or keeps of frozen parameters: where an
    /// update writes new weights, and where the sum of all ranks' gradients arrives.
    Tensor owned_weights(const FlatRange& range) const {
        if (is_balance(range)) return balance(range);
        return view(weights_, gathered_weights_, placement_.kept_weights.of(range), range);
    }
    Tensor owned_grads(const FlatRange& range) const {
        return view(main_grads_, gathered_grads_, placement_.kept_grads.of(range), range);
    }
    const Placement& placement() const { return placement_; }
    /// True if weights, or gradients, pass through windows.
    bool gathers_weights() const { return placement_.weight_windows.count > 0; }
    bool gathers_grads() const { return placement_.grad_windows.count > 0; }
    /// The gradients that a step has to clear before its first backward.
    std::vector<Tensor> cleared_grads() const;
    /// All that the model computes with: weights, quantised forms, and scales.
    std::vector<Tensor> buffers() const;
    /// The parts of them that are the same on all ranks of an axis: with parameters whose gradients
    /// are summed over it, or if weights are divided, those that it has copies of.
    std::vector<Tensor> shared_over(Axis axis) const;
    /// Zeroes them, including the padding, which nothing else writes and replica checks compare.
    void clear(Backend& backend) const;
    /// Sets a parameter in every form in which it is kept. `values`: fp32, its shard's elements;
    /// they may be its `weights`. Not of a parameter in NF4.
    void set(Backend& backend, const Parameter& parameter, const Tensor& values) const;
    /// The NF4 form of a parameter that is kept so.
    Nf4Matrix nf4(const Parameter& parameter) const;
    /// Registers a flat range of weights to come from the ranks that updated it. `start` begins the
    /// transfer: at once, or with one_by_one after the previous range has been waited for. Register
    /// disjoint ranges in the order of use, last range first.
    void expect(const FlatRange& range, std::function<Pending()> start);
    /// Waits for weights in flight; call it before reading a flat range.
    void wait_for(const FlatRange& range);
    void wait_for_all() { wait_for({0, layout_.elements}); }
    bool nothing_in_flight() const { return arriving_.empty() && !gathers_weights(); }
    struct Gather {
        /// Starts the messages that bring a unit's weights to its window.
        std::function<std::vector<Pending>(std::size_t unit)> start;
        /// Makes of them what the model reads, once they are there.
        std::function<void(std::size_t unit)> finish;
    };
    /// Call it once if gathers_weights().
    void gather_with(Gather gather) { gather_ = std::move(gather); }
    /// Waits for a unit's weights; call it before reading them. Gathers them first unless they are
    /// in their window or on their way. Without windows it does nothing.
    void need(std::size_t unit);
    /// Starts to gather a unit's weights. Compute that has been issued may still read what is in
    /// the window.
    void prefetch(std::size_t unit);
    /// Call it after every update of owned weights: windows then hold old ones.
    void forget_gathered();
    bool uses_fp8() const { return !scales_.empty(); }
    /// Converts the trained FP8 groups; call it after every update unless they are gathered. Takes
    /// workspace memory for one group.
    void to_fp8(Backend& backend, Arena& workspace) const;
    /// The same for one of them, or for a frozen one that is gathered.
    void to_fp8(Backend& backend, Arena& workspace, const ParameterGroup& group) const;
    /// Converts the frozen FP8 groups unless they are gathered; call it once their values are
    /// there.
    void frozen_to_fp8(Backend& backend, Arena& workspace) const;
    Fp8Matrix fp8(const ParameterGroup& group) const;
    /// Largest absolute values of the FP8 groups, which gathers in FP8 need, a row for each group;
    /// empty if there are none.
    const Tensor& amaxes() const { return amaxes_; }
    Tensor amax(const ParameterGroup& group) const { return number_of(amaxes_, group); }
    /// The group of that name; its tensors are empty if the layout lacks it.
    GroupTensors group(std::string_view name) const;
    /// The parameters stacked in that group; empty if the layout lacks it.
    std::vector<GroupRows> rows_of(std::string_view name) const;

private:
    const ParameterGroup* find(std::string_view name) const;
    static Tensor view(const Tensor& kept, const Tensor& windows, const BufferPlace& place,
                       const FlatRange& range) {
        return (place.window ? windows : kept).slice(0, place.begin, range.elements());
    }
    bool is_balance(const FlatRange& range) const { return range.begin >= layout_.elements; }
    Tensor balance(const FlatRange& range) const {
        return balances_.slice(0, range.begin - layout_.elements, range.elements());
    }
    std::optional<int> window_of(std::size_t unit) const;
    /// The group's number of those in `rows`, fp32 [groups, scale_step].
    Tensor number_of(const Tensor& rows, const ParameterGroup& group) const {
        return rows.slice(0, &group - layout_.groups.data(), 1).slice(1, 0, 1).view({1});
    }
    Int8Matrix int8(const QuantisedPlace& place, const Shape& shape) const;
    std::vector<Nf4Matrix> nf4(const ParameterGroup& group) const;

    ParameterLayout layout_;
    std::unordered_map<std::string_view, const ParameterGroup*> groups_;  ///< in layout_, by name
    Placement placement_;
    Tensor weights_;           ///< those that are kept
    Tensor gathered_weights_;  ///< windows
    /// From one scale to the next: cuBLASLt has no algorithm for one that is not aligned to 16
    /// bytes.
    static constexpr std::int64_t scale_step = 4;
    /// fp32 [groups, scale_step], the first of a row in use; or all scales for blocks. Empty
    /// without FP8.
    Tensor scales_;
    Tensor amaxes_;
    Tensor quantised_values_;
    Tensor quantised_scales_;
    Tensor scale_factors_;   ///< of nested scales
    Tensor main_grads_;      ///< those that are kept
    Tensor gathered_grads_;  ///< windows
    Tensor balances_;        ///< fp32, layout().balances long
    bool one_by_one_;
    struct Arriving {
        std::int64_t end;
        std::function<Pending()> start;  ///< empty once it has started
        Pending pending;
    };
    static void start(Arriving& arriving);
    /// Sorted by begin, last range first, the order in which they are sent.
    std::map<std::int64_t, Arriving, std::greater<>> arriving_;
    Gather gather_;
    struct Window {
        std::optional<std::size_t> unit = {};  ///< whose weights are in it, or on their way
        std::vector<Pending> pending = {};
    };
    std::vector<Window> windows_;  ///< of weights
};

}  // namespace gptrain
