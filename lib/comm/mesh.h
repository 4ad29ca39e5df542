// The ranks as a mesh of four axes: dp pp cp tp, with tp varying fastest, then cp, dp, pp.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string_view>

#include "comm/communicator.h"
#include "spec/run_plan.h"

namespace gptrain {

/// The groups of ranks that a communicator exists for.
enum class Axis {
    tp,
    cp,
    dp,
    pp,
    dp_cp,  ///< the ranks that hold the same parameters: gradients are summed over them
    model,  ///< tp x pp: the ranks that together hold one copy of the parameters
};
constexpr int axes = 6;
std::string_view name_of(Axis axis);

/// This rank's place on each axis.
struct MeshPlace {
    int dp = 0;
    int pp = 0;
    int cp = 0;
    int tp = 0;
};

/// The place of a rank of the world: rank = ((pp D + dp) C + cp) T + tp.
MeshPlace place_of(std::int64_t rank, const MeshShape& shape);

/// Makes the communicator of one axis for the rank that has `rank` of `size` on it.
using CommunicatorFactory =
    std::function<std::unique_ptr<Communicator>(Axis axis, int rank, int size)>;

/// All communicators of a rank, made up front.
class Mesh {
public:
    Mesh(const MeshShape& shape, const MeshPlace& place, const CommunicatorFactory& make);

    const MeshShape& shape() const { return shape_; }
    const MeshPlace& place() const { return place_; }
    Communicator& operator[](Axis axis) const {
        return *communicators_[static_cast<std::size_t>(axis)];
    }
    Communicator& tp() const { return (*this)[Axis::tp]; }
    Communicator& cp() const { return (*this)[Axis::cp]; }
    Communicator& dp() const { return (*this)[Axis::dp]; }
    Communicator& dp_cp() const { return (*this)[Axis::dp_cp]; }
    Communicator& model() const { return (*this)[Axis::model]; }

private:
    MeshShape shape_;
    MeshPlace place_;
    std::array<std::unique_ptr<Communicator>, axes> communicators_;
};

/// The mesh of a program that runs alone.
Mesh one_rank_mesh();

}  // namespace gptrain
