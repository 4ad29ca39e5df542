#include "optim/muon.h"

#include <algorithm>
#include <cmath>

#include "optim/newton_schulz.h"

namespace gptrain {

Muon::Muon(Backend& backend, Arena& workspace, Communicator& tp, const OptimizerPlan& plan,
           DType compute)
    : backend_(backend),
      workspace_(workspace),
      tp_(tp),
      spec_(plan.muon),
      weight_decay_(plan.weight_decay),
      compute_(compute) {}

void Muon::update(const MuonPiece& piece, const StepRef& step) {
    const Shape& offset = piece.box.offset;
    const Shape& extent = piece.box.extent;
    const ArenaFrame frame(workspace_);
    const Tensor x = workspace_.allocate(compute_, piece.global);
    {
        const ArenaFrame inner(workspace_);
        const Tensor u = workspace_.allocate(DType::f32, extent);
        backend_.run(MuonMomentum{.main_grad = piece.main_grad,
                                  .momentum = piece.momentum,
                                  .u = u,
                                  .decay = static_cast<float>(spec_.momentum),
                                  .nesterov = spec_.nesterov,
                                  .step = step});
        const Tensor whole = gather(u, piece.global);
        const Tensor squares = workspace_.allocate(DType::f64, {1});
        backend_.run(Fill{.x = squares, .value = 0});
        backend_.run(SquareSum{.addends = std::span(&whole, 1), .total = squares});
        backend_.run(Normalise{.from = whole, .square_sum = squares, .to = x});
    }
    orthogonalise(backend_, workspace_, x);
    const auto box = [&](const Tensor& flat) { return flat.empty() ? flat : flat.view(extent); };
    backend_.run(MuonUpdate{.main_param = box(piece.main_param),
                            .x = x.slice(0, offset[0], extent[0]).slice(1, offset[1], extent[1]),
                            .weight = box(piece.weight),
                            .scale = scale_of(piece.global),
                            .lr_scale = spec_.lr_scale,
                            .weight_decay = weight_decay_,
                            .step = step});
}

Tensor Muon::gather(const Tensor& box, const Shape& all) {
    if (box.shape() == all) return box;
    const Tensor whole = workspace_.allocate(DType::f32, all);
    if (box.size(1) < all[1]) {
        tp_.all_gather(whole, box, 1).wait();
        return whole;
    }
    // Ranks that share heads of k and v hold the same rows.
    const std::int64_t sharers = box.size(0) * tp_.size() / all[0];
    if (sharers == 1) {
        tp_.all_gather(whole, box, 0).wait();
        return whole;
    }
    const ArenaFrame frame(workspace_);
    const Tensor copies =
        workspace_.allocate(DType::f32, {all[0] / box.size(0), sharers, box.elements()});
    tp_.all_gather(copies.view({tp_.size(), box.elements()}), box.view({1, box.elements()}), 0)
        .wait();
    const Shape distinct = {all[0] / box.size(0), box.elements()};
    backend_.copy(whole.view(distinct), copies.slice(1, 0, 1).view(distinct));
    return whole;
}

double Muon::scale_of(const Shape& matrix) const {
    const auto rows = static_cast<double>(matrix[0]);
    const auto columns = static_cast<double>(matrix[1]);
    return spec_.scale == MuonScale::match_rms ? 0.2 * std::sqrt(std::max(rows, columns))
                                               : std::sqrt(std::max(1.0, rows / columns));
}

}  // namespace gptrain
