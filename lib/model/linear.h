// Linear layers split over tensor parallelism (Shoeybi et al. 2019, arXiv 1909.08053):
//
//   y  = x W^T + b           x [T, I], W [O, I], b [O], y [T, O]
//   dx = dy W                [T, I]
//   dW += dy^T x             fp32 [O, I]
//   db += sum of rows of dy  fp32 [O]
#pragma once

#include <string>

#include "model/context.h"
#include "model/parameters.h"

namespace gptrain {

class Linear {
public:
    enum class Split {
        column,  ///< splits the outputs; sums dx over tp
        row,     ///< splits the inputs; sums y over tp, then adds the bias
    };
    // With sequence parallelism, tensors of the residual stream (x of a column layer, y of a row
    // layer, and their gradients) hold this rank's slice only: slices are gathered before the
    // GEMMs, and sums are reduce-scattered to slices.

    /// Uses the parameter groups `name`.weight and `name`.bias.
    Linear(const ModelContext& context, const Parameters& parameters, const std::string& name,
           Split split);

    std::int64_t outputs() const { return weight_.outputs(); }
    std::int64_t inputs() const { return weight_.inputs(); }
    /// True if its GEMMs are FP8.
    bool fp8() const { return !weight_.weight8.empty(); }
    /// True if backward reads x, for the gradient of the weight.
    bool needs_input() const { return weight_.trained(); }

    /// y = x W^T + b for x [T, I] and y [T, O], T this rank's rows (a slice, with sequence
    /// parallelism). `gelu` [T, O], unless empty, receives gelu(y): column layers only, not in FP8.
    void forward(const WithAmax& x, const Tensor& y, const Tensor& gelu = {}) const;

    struct Backward {
        WithAmax x;         ///< [T, I]; not read if only inputs are asked for (B)
        WithAmax dy;        ///< [T, O]
        Tensor dx;          ///< [T, I], =; not written if only weights are asked for (W)
        Tensor gelu_input;  ///< [T, I] or empty: dx then is the gradient of the GELU's input; not
                            ///< in FP8
    };
    /// Sums dx over tp while it computes the weight gradient, unless that is frozen.
    void backward(const Backward& args, BackwardPart part) const;

private:
    void multiply(const WithAmax& x, const Tensor& bias, const Tensor& y,
                  const Tensor& gelu = {}) const;
    /// The arguments of the input gradient for piece i of the rows (slices.h).
    Backward piece_of(const Backward& args, std::int64_t i) const;
    void column_backward(const Backward& args, BackwardPart part) const;
    void row_backward(const Backward& args, BackwardPart part) const;
    void input_grad(const Backward& args, const Fp8Matrix& dy8) const;
    void weight_grad(const Backward& args, const Tensor& dbias, const Fp8Matrix& dy8) const;
    /// The bias gradient, if it is not frozen.
    void bias_grad(const Tensor& dy) const;
    /// dy as FP8, as the part reads it.
    Fp8Matrix converted_gradient(const WithAmax& dy, BackwardPart part) const;
    /// x as FP8, in workspace memory that the caller's frame releases.
    Fp8Matrix converted(const WithAmax& x, DType format, bool rows, bool columns) const;

    const ModelContext& context_;
    GroupTensors weight_;
    GroupTensors bias_;
    Split split_;
};

}  // namespace gptrain
