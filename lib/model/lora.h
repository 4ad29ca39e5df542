// LoRA (Hu et al. 2021, arXiv 2106.09685) for the outputs t of a linear layer that it adapts:
//
//   h    = s dropout(x) A^T     x [T, I], A [n r, I], h [T, n r], s = alpha / r
//   y_t += h_t B_t^T            B_t [O_t, r], h_t the r columns of h, y_t the O_t columns of y
//
//   dh_t = s dy_t B_t           dB_t += dy_t^T h_t
//   dx  += dropout'(dh A)       dA   += dh^T dropout(x)
//
// The outputs share A's input, so A is one matrix. Over tp a column-parallel layer has whole rows
// of x and its own outputs, and so a part of dx; a row-parallel one has its own columns of x, and
// so a part of y, for all outputs. The layer sums these parts with its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/context.h"
#include "model/parameters.h"

namespace gptrain {

/// The coordinates of the dropout masks of a linear layer's adapter.
struct LoraSite {
    DropoutSite site = DropoutSite::lora_qkv;
    std::int64_t layer = 0;
};

class LoraLayer {
public:
    /// The adapter of the parameter group `name`.weight, if it has one.
    /// `feature_begin`: the global index of x's first column.
    LoraLayer(const ModelContext& context, const Parameters& parameters, const std::string& name,
              const LoraSite& site, std::int64_t feature_begin);

    bool present() const { return !outputs_.empty(); }

    // Rows are those of whole sequences, or a range of them where no Pass is given. Results are in
    // the workspace.

    /// h
    Tensor down(const Tensor& x, const Pass& pass) const;
    /// y += h B^T
    void up(const Tensor& h, const Tensor& y) const;

    /// Intermediate gradients shared by input_grad and weight_grad.
    struct Gradient {
        Tensor dh;       ///< [T, n r]
        Tensor dropped;  ///< dropout'(dh A) [T, I]; empty without dropout, and for W
    };
    Gradient gradient(const Tensor& dy, const Pass& pass, BackwardPart part) const;
    /// dx += dropout'(dh A)
    void input_grad(const Gradient& gradient, const Tensor& dx) const;
    /// dA and dB, +=
    void weight_grad(const Tensor& x, const Tensor& dy, const Gradient& gradient,
                     const Pass& pass) const;

private:
    /// An adapted output.
    struct Output {
        std::int64_t begin;  ///< its first column of y
        Tensor weight;       ///< B_t [O_t, r]
        Tensor grad;         ///< fp32 [O_t, r], empty for inference
    };
    /// Output i's columns of h.
    Tensor part_of(const Tensor& h, std::size_t i) const;
    Tensor columns_of(const Output& output, const Tensor& y) const;
    Tensor down_grad(const Tensor& dy) const;
    Dropout dropout(const Pass& pass) const;
    /// y = dropout(x)
    void drop(const Tensor& x, const Tensor& y, const Pass& pass) const;
    /// dropout(x), or x itself without dropout.
    Tensor dropped(const Tensor& x, const Pass& pass) const;
    /// h = s dropped A^T
    void multiply(const Tensor& dropped, const Tensor& h) const;
    /// h *= s
    void scale(const Tensor& h) const;

    const ModelContext& context_;
    LoraSite site_;
    std::int64_t feature_begin_;
    GroupTensors a_;
    std::vector<Output> outputs_;
};

}  // namespace gptrain
