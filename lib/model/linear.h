// Linear layers split over tensor parallelism (Shoeybi et al. 2019, arXiv 1909.08053):
//
//   y  = x W^T + b           x [T, I], W [O, I], b [O], y [T, O]
//   dx = dy W                [T, I]
//   dW += dy^T x             fp32 [O, I]; = in the first microbatch of a step
//   db += sum of rows of dy  fp32 [O]
//
// An adapter (lora.h) adds its part to y and to dx.
#pragma once

#include <string>

#include "model/lora.h"

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

    /// Uses the parameter groups `name`.weight, `name`.bias, and those of its adapter.
    Linear(const ModelContext& context, const Parameters& parameters, const std::string& name,
           Split split, const LoraSite& site);

    std::int64_t outputs() const { return weight_.outputs(); }
    std::int64_t inputs() const { return weight_.inputs(); }
    /// True if its GEMMs are FP8.
    bool fp8() const { return !weight_.weight8.empty(); }
    /// True if they are, and each matrix has one scale: the layer reads the maxima of x and dy.
    /// With scales for blocks it converts the operands of a product when it multiplies them, unless
    /// their rows have been.
    bool one_scale() const { return fp8() && !weight_.weight8.in_blocks(); }
    /// True if it reads rows8 of x, or of dy. A layer converts for itself what it gathers from the
    /// slices of other ranks, or multiplies in pieces.
    bool takes_x8() const { return takes_rows8(Split::column); }
    bool takes_dy8() const { return takes_rows8(Split::row); }
    /// x with memory for rows8 in the workspace, if it reads that.
    LinearOperand with_rows8(LinearOperand x, const Shape& shape) const;
    /// True if its weight is kept in int8 or NF4.
    bool quantised() const { return weight_.quantised(); }
    bool has_adapter() const { return lora_.present(); }
    /// True if backward reads x, for the gradient of the weight or of the adapter.
    bool needs_input() const { return weight_.trained() || has_adapter(); }
    /// True if the part of backward reads x, and x was not kept.
    bool lacks(const LinearOperand& x, BackwardPart part) const {
        return part != BackwardPart::inputs && needs_input() && !x.is_kept();
    }
    /// True if x by columns is all that backward needs of x: forward converts x to FP8 with one
    /// scale anyway, and both forms at once take less traffic. Not if the layer gathers slices of
    /// x.
    bool keeps_columns() const;
    /// Memory for x [T, I] to keep for backward: its values, or its columns if those are enough.
    LinearOperand reserve_input(Arena& arena, const Shape& shape) const;

    /// y = x W^T + b for x [T, I] and y [T, O], T this rank's rows (a slice, with sequence
    /// parallelism). Fills x.columns8 unless it is empty. `a`, unless empty, receives the model's
    /// activation function of y, GELU [T, O] or SwiGLU [T, O / 2]: column layers only, not in FP8
    /// and not with an adapter.
    void forward(const LinearOperand& x, const Tensor& y, const Pass& pass,
                 const Tensor& a = {}) const;

    struct Backward {
        LinearOperand x;   ///< [T, I]; not read if only inputs are asked for (B), and only
                           ///< its columns if they are given
        LinearOperand dy;  ///< [T, O]
        Tensor dx;         ///< [T, I], =; not written if only weights are asked for (W)
        /// The input of a GELU [T, I], whose gradient dx then is, or of a SwiGLU [T, 2 I], whose
        /// gradient du is; or empty. Not in FP8 and not with an adapter.
        Tensor activation_input = {};
        Tensor du = {};  ///< as the input of a SwiGLU, =
    };
    /// Sums dx over tp while it computes the gradients of what is trained.
    void backward(const Backward& args, const Pass& pass, BackwardPart part) const;

private:
    /// `gathers`: the split of a layer that gathers the slices of this operand.
    bool takes_rows8(Split gathers) const {
        const bool whole = split_ != gathers || !context_.sequence_parallel;
        return fp8() && weight_.weight8.in_blocks() && whole && context_.tensor_pieces == 1;
    }
    /// True if the gradient of the weight is an FP8 product.
    bool gradient8() const { return fp8() && context_.fp8_weight_gradients; }
    /// An operand of a GEMM: in FP8 if it is at hand, else its values.
    struct Factor {
        Tensor values;
        Fp8Matrix in8;
    };
    /// `weight`: what forward_weight returned; empty: use the quantised form.
    void multiply(const Tensor& weight, const Factor& x, const Tensor& bias, const Tensor& y,
                  const Tensor& a = {}) const;
    /// True if ranks gather FP8: each converts its slice by the amax of all rows, and one byte of
    /// each element travels. An adapter, or the gradient of the weight, may read whole rows in the
    /// compute dtype.
    bool gathers_fp8() const {
        return one_scale() && gradient8() && context_.sequence_parallel && !has_adapter();
    }
    /// This rank's slice as it is gathered: its values, or if gathers_fp8() its rows in FP8, with
    /// the scale of all rows.
    Factor to_gather(const LinearOperand& slice, DType format) const;
    /// The columns of a matrix of which the rows are known.
    Fp8Matrix transposed(const Fp8Matrix& x) const;
    /// The arguments of the input gradient for piece i of the rows (slices.h).
    Backward piece_of(const Backward& args, std::int64_t i) const;
    void column_forward(const LinearOperand& x, const Tensor& y, const Pass& pass,
                        const Tensor& a) const;
    void row_forward(const LinearOperand& x, const Tensor& y, const Pass& pass) const;
    void column_backward(const Backward& args, const Pass& pass, BackwardPart part) const;
    void row_backward(const Backward& args, const Pass& pass, BackwardPart part) const;
    /// Input gradients of these rows, with the adapter's part unless `lora` is empty. `weight`: of
    /// whole_weight.
    void input_grad(const Tensor& weight, const Backward& args, const LoraLayer::Gradient& lora,
                    const Fp8Matrix& dy8) const;
    /// The adapter's intermediate gradient (LoraLayer::Gradient) for all rows; empty without an
    /// adapter.
    LoraLayer::Gradient adapter_gradient(const Tensor& dy, const Pass& pass,
                                         BackwardPart part) const;
    LoraLayer::Gradient piece_of(const LoraLayer::Gradient& lora, std::int64_t i) const;
    /// The op that computes the bias gradient.
    enum class BiasOp {
        none,         ///< the bias is frozen, or another part computes it
        own,          ///< BiasGrad
        weight_grad,  ///< LinearWeightGrad
        conversion,   ///< ToFp8
    };
    BiasOp bias_op(BackwardPart part) const;
    /// The bias gradient if `op` computes it, otherwise empty.
    Tensor dbias_of(BiasOp op, BackwardPart part) const;
    /// The gradient of the weight, if it is not frozen.
    void weight_grad(const Backward& args, const Pass& pass, BackwardPart part,
                     const Fp8Matrix& dy8) const;
    void bias_grad(const Tensor& dy, BackwardPart part) const;
    /// dy as FP8, as the part reads it; empty if no FP8 GEMM does, or if the product's function
    /// converts it.
    Fp8Matrix converted_gradient(const LinearOperand& dy, BackwardPart part) const;
    struct Forms {
        DType format;
        bool rowwise;
        bool columnwise;
    };
    /// x in FP8 with scales for blocks of 1 x 128, in workspace memory that the caller's frame
    /// releases.
    Fp8Matrix in_blocks(const Tensor& x) const;
    /// The same by columns. `row_sum` as in ToFp8Columns.
    Fp8Matrix columns_in_blocks(const Tensor& x, const Tensor& row_sum = {}) const;
    /// x as FP8, with one scale. Fills x.columns8 unless it is empty; the forms asked for are in
    /// workspace memory, which the caller's frame releases. `row_sum` as in ToFp8.
    Fp8Matrix converted(const LinearOperand& x, const Forms& forms,
                        const Tensor& row_sum = {}) const;

    const ModelContext& context_;
    GroupTensors weight_;
    GroupTensors bias_;
    Split split_;
    LoraLayer lora_;
};

}  // namespace gptrain
