// How the matrices that are kept in int8 or NF4 only get their values.
#pragma once

#include <functional>
#include <vector>

#include "base/nf4.h"
#include "model/parameters.h"

namespace gptrain {

/// A matrix to load. A rank needs all of a matrix whose scales are nested, because they are
/// functions of the whole.
struct QuantisedLoad {
    Shard shard;  ///< what to read
    /// Converts its values, which are fp32.
    std::function<void(const Tensor& values)> set;
    /// In NF4: takes the whole matrix as it is stored. Empty in int8.
    std::function<void(const Nf4View& matrix)> set_stored = {};
};

/// One for each matrix; `backend` and `parameters` must outlive them.
std::vector<QuantisedLoad> quantised_loads(Backend& backend, const Parameters& parameters);

}  // namespace gptrain
