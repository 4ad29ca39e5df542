// Linear layers split over the tensor-parallel axis (Shoeybi et al. 2019, arXiv 1909.08053).
#pragma once

#include <string>

#include "model/context.h"
#include "model/parameters.h"

namespace gptrain {

class Linear {
public:
    enum class Split {
        column,  ///< outputs are split: its input's gradient is summed over tp
        row,     ///< inputs are split: its output is summed over tp, its bias added afterwards
    };
    // With sequence parallelism what belongs to the residual stream is this rank's slice: x of a
    // column layer, y of a row layer, and their gradients. The sums then end in slices, and slices
    // are gathered before the products.

    /// The layer whose parameters are the groups `name`.weight and `name`.bias.
    Linear(const ModelContext& context, const Parameters& parameters, const std::string& name,
           Split split);

    std::int64_t outputs() const { return weight_.outputs(); }
    std::int64_t inputs() const { return weight_.inputs(); }
    /// Whether its products are in 8 bits.
    bool float8() const { return !weight_.weight8.empty(); }

    /// y = x weight^T + bias; x [T, I], y [T, O], T rows or those of a slice. `gelu` [T, O] or
    /// empty: gelu(y); of column layers alone, and not in 8 bits.
    void forward(const Measured& x, const Tensor& y, const Tensor& gelu = {}) const;

    struct Backward {
        Measured x;         ///< [T, I]; not read by BackwardPart::inputs
        Measured dy;        ///< [T, O]
        Tensor dx;          ///< [T, I], =; not written by BackwardPart::weights
        Tensor gelu_input;  ///< [T, I] or empty: dx is then the gradient of the gelu's input; not
                            ///< in 8 bits
    };
    /// The sum of dx over tp runs while the weight gradient is computed.
    void backward(const Backward& args, BackwardPart part) const;

private:
    void product(const Measured& x, const Tensor& bias, const Tensor& y,
                 const Tensor& gelu = {}) const;
    void column_backward(const Backward& args, BackwardPart part) const;
    void row_backward(const Backward& args, BackwardPart part) const;
    void input_grad(const Backward& args, const Float8Matrix& dy8) const;
    void weight_grad(const Backward& args, const Tensor& dbias, const Float8Matrix& dy8) const;
    /// x in 8 bits, in workspace that the caller's frame gives back.
    Float8Matrix converted(const Measured& x, DType format, bool rows, bool columns) const;

    const ModelContext& context_;
    GroupTensors weight_;
    GroupTensors bias_;
    Split split_;
};

}  // namespace gptrain
