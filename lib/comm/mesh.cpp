#include "comm/mesh.h"

#include "base/checked.h"

namespace gptrain {

std::string_view name_of(Axis axis) {
    switch (axis) {
        case Axis::tp: return "tp";
        case Axis::cp: return "cp";
        case Axis::dp: return "dp";
        case Axis::pp: return "pp";
        case Axis::dp_cp: return "dp x cp";
        case Axis::model: return "tp x pp";
    }
    return "?";
}

MeshPlace place_of(std::int64_t rank, const MeshShape& shape) {
    GPTRAIN_CHECK(rank >= 0 && rank < shape.size(), "rank ", rank, " of ", shape.size());
    MeshPlace place;
    place.tp = narrow<int>(rank % shape.tensor);
    rank /= shape.tensor;
    place.cp = narrow<int>(rank % shape.context);
    rank /= shape.context;
    place.dp = narrow<int>(rank % shape.data);
    place.pp = narrow<int>(rank / shape.data);
    return place;
}

Mesh::Mesh(const MeshShape& shape, const MeshPlace& place, const CommunicatorFactory& make)
    : shape_(shape), place_(place) {
    const auto add = [&](Axis axis, std::int64_t rank, std::int64_t size) {
        communicators_[static_cast<std::size_t>(axis)] =
            make(axis, narrow<int>(rank), narrow<int>(size));
    };
    add(Axis::tp, place.tp, shape.tensor);
    add(Axis::cp, place.cp, shape.context);
    add(Axis::dp, place.dp, shape.data);
    add(Axis::pp, place.pp, shape.pipeline);
    add(Axis::dp_cp, place.dp * shape.context + place.cp, shape.data * shape.context);
    add(Axis::model, place.pp * shape.tensor + place.tp, shape.pipeline * shape.tensor);
}

Mesh one_rank_mesh() {
    return Mesh({}, {}, [](Axis, int, int) { return std::make_unique<OneRankCommunicator>(); });
}

}  // namespace gptrain
