// Experts that start as copies of a dense model's mlp (Komatsuzaki et al. 2022, arXiv 2212.05055).
#pragma once

#include <string>

#include "backend/backend.h"
#include "checkpoint/state_source.h"
#include "spec/run_plan.h"

namespace gptrain {

/// True if weights of a model without experts can start one that has them.
inline bool upcycles(const ModelShape& theirs, const ModelShape& ours) {
    return ours.experts && !theirs.experts;
}

/// The dense model whose weights start `model`, which has experts. Error (usage) that names
/// `source` if its experts cannot be copies of an mlp.
ModelShape dense_form(const ModelShape& model, const std::string& source);

/// The states of `weights`, those of experts as states of the mlp that each of them copies, without
/// the parameters that a dense model lacks.
StateSource as_dense(const StateSource& weights);

/// Adds N(0, std) to every element of the experts' matrices, a function of the seed and the
/// weight's place.
void add_noise(Backend& backend, const StateSource& weights, std::uint64_t seed, double std);

}  // namespace gptrain
