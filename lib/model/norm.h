// A norm, fused with the residual sum before it, for rows of H features:
//
//   r = r + dropout(y)             [T, H]
//   n = (r - mean) rstd w + b      layernorm
//   n = r rstd w                   rmsnorm
#pragma once

#include <string>

#include "model/context.h"
#include "model/parameters.h"

namespace gptrain {

/// The tensors that the norm's backward reads.
struct SavedNorm {
    Tensor r;     ///< [T, H]: the residual stream, input of the norm
    Tensor mean;  ///< fp32 [T]; empty for rmsnorm
    Tensor rstd;  ///< fp32 [T]
};

/// grad.dy = the gradient of the branch that the stream added last, `branch_dropout` being its
/// dropout, from grad.dr.
void start_branch_gradient(const ModelContext& context, StreamGrad& grad,
                           const Dropout& branch_dropout, const Pass& pass);

class NormLayer {
public:
    NormLayer(const ModelContext& context, const Parameters& parameters, const std::string& name);

    /// Allocates what backward reads of a batch of `tokens` tokens. `r`, unless empty, is kept
    /// elsewhere.
    SavedNorm reserve(Arena& arena, std::int64_t tokens, const Tensor& r = {}) const;
    /// Fills missing statistics with workspace memory; `stream` stands in for a residual stream
    /// that was not kept.
    SavedNorm with_workspace(SavedNorm kept, const Tensor& stream, std::int64_t tokens) const;

    /// saved.r = stream.r + dropout(stream.y); n = norm(saved.r). Afterwards the stream is saved.r
    /// with no pending branch. If it has no branch yet, stream.r must be saved.r.
    void forward(Stream& stream, const SavedNorm& saved, const LinearOperand& n,
                 const Pass& pass) const;
    /// Recomputes n bit for bit in the workspace, so its amax stays valid.
    Tensor rebuild(const SavedNorm& saved) const;
    /// grad.dr (+)= the gradient through the norm; grad.dy = the gradient of the branch summed
    /// before it, `branch_dropout` being its dropout. Without `accumulate` the gradient of the
    /// stream starts here.
    void backward(const Tensor& dn, const SavedNorm& saved, StreamGrad& grad,
                  const Dropout& branch_dropout, const Pass& pass, bool accumulate) const;

private:
    Norm norm() const;
    void reserve_statistics(SavedNorm& saved, Arena& arena, std::int64_t tokens) const;

    const ModelContext& context_;
    GroupTensors weight_;
    GroupTensors bias_;
};

}  // namespace gptrain
