// A norm and the residual sum before it.
#pragma once

#include <string>

#include "model/context.h"
#include "model/parameters.h"

namespace gptrain {

/// What a norm's backward reads.
struct SavedNorm {
    Tensor r;     ///< [T, H]: the residual stream, the norm's input
    Tensor mean;  ///< fp32 [T]; empty for rmsnorm
    Tensor rstd;  ///< fp32 [T]
};

class NormLayer {
public:
    NormLayer(const ModelContext& context, const Parameters& parameters, const std::string& name);

    /// Statistics that were not kept are given memory in the workspace.
    SavedNorm complete(SavedNorm kept, std::int64_t tokens) const;
    /// Memory of statistics for `tokens` rows.
    SavedNorm reserve(Arena& arena, std::int64_t tokens) const;

    /// saved.r = stream.r + dropout(stream.y); n = norm(saved.r). The stream then is saved.r alone.
    /// Where the stream has no branch yet, its r must be saved.r.
    void forward(Stream& stream, const SavedNorm& saved, const Measured& n, const Pass& pass) const;
    /// n again, the same bits and so the same maximum.
    void rebuild(const SavedNorm& saved, const Tensor& n) const;
    /// grad.dr (+)= the gradient through the norm, then grad.dy = the gradient of the branch that
    /// was summed before it, `branch` being its dropout. Without `accumulate` the norm is where the
    /// gradient of the stream begins.
    void backward(const Tensor& dn, const SavedNorm& saved, StreamGrad& grad, const Dropout& branch,
                  const Pass& pass, bool accumulate) const;

private:
    Norm norm() const;

    const ModelContext& context_;
    GroupTensors weight_;
    GroupTensors bias_;
};

}  // namespace gptrain
