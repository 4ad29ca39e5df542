// Muon updates a matrix with its orthogonalised momentum (Jordan 2024; Liu et al. 2025, arXiv
// 2502.16982). For a whole matrix W [m, n] with gradient g:
//
//   momentum = mu momentum + g
//   u = g + mu momentum (nesterov), or momentum
//   X = orthogonalise(u / (||u|| + 1e-7))             (newton_schulz.h)
//   W = W - rate (scale X + weight_decay W)           rate = lr lr_scale
//
// scale is 0.2 sqrt(max(m, n)) (match_rms: the root mean square of an update is about 0.2, as
// AdamW's is, so both take the same learning rate) or sqrt(max(1, m / n)) (original).
//
// A rank keeps momentum and weight of its box of the matrix. All ranks of tp gather u and
// orthogonalise it alike.
#pragma once

#include "backend/backend.h"
#include "backend/memory.h"
#include "comm/communicator.h"
#include "model/layout.h"

namespace gptrain {

/// This rank's box of a matrix; flat tensors of equal length.
struct MuonPiece {
    Shape global;  ///< of the whole matrix
    Box box;
    Tensor main_param;  ///< fp32
    Tensor main_grad;   ///< fp32
    Tensor momentum;    ///< fp32
    Tensor weight;      ///< compute dtype; empty if it is main_param
};

class Muon {
public:
    /// `compute`: the dtype of GEMMs. The references must outlive it.
    Muon(Backend& backend, Arena& workspace, Communicator& tp, const OptimizerPlan& plan,
         DType compute);

    /// Updates main_param and weight. A skipped step only rounds main_param to weight. All ranks of
    /// tp call it for the same matrices in the same order.
    void update(const MuonPiece& piece, const StepRef& step);

private:
    /// The whole matrix on all ranks of tp, from their boxes.
    Tensor gather(const Tensor& box, const Shape& all);
    double scale_of(const Shape& matrix) const;

    Backend& backend_;
    Arena& workspace_;
    Communicator& tp_;
    MuonSpec spec_;
    double weight_decay_;
    DType compute_;
};

}  // namespace gptrain
