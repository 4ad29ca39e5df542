#include "comm/mpi_mesh.h"

#include "base/checked.h"

namespace gptrain {

std::int64_t first_rank_on(Axis axis, const MeshPlace& place, const MeshShape& shape) {
    MeshPlace first = place;
    const bool model = axis == Axis::model;
    const bool replicas = axis == Axis::dp_cp;
    if (axis == Axis::tp || model) first.tp = 0;
    if (axis == Axis::pp || model) first.pp = 0;
    if (axis == Axis::cp || replicas) first.cp = 0;
    if (axis == Axis::dp || replicas) first.dp = 0;
    return ((first.pp * shape.data + first.dp) * shape.context + first.cp) * shape.tensor +
           first.tp;
}

void check_mesh_fits(const MpiSession& session, const MeshShape& shape) {
    if (session.size() == shape.size()) return;
    fail(ExitCode::usage, "the mesh of data ", shape.data, " x pipeline ", shape.pipeline,
         " x context ", shape.context, " x tensor ", shape.tensor, " needs ", shape.size(),
         " ranks, ", session.size(), " were started; change `parallel` or start ", shape.size(),
         " with `mpirun -n` or `srun --mpi=pmix -n`");
}

CommunicatorFactory mpi_communicators(const MpiSession& session, const MeshShape& shape,
                                      Backend& backend, const MpiOptions& options) {
    const MeshPlace place = place_of(session.rank(), shape);
    return [&session, &backend, place, shape, options](Axis axis, int rank,
                                                       int size) -> std::unique_ptr<Communicator> {
        if (size == 1) return std::make_unique<OneRankCommunicator>();
        const MpiGroup group = {.color = narrow<int>(first_rank_on(axis, place, shape)),
                                .key = rank};
        MpiOptions named = options;
        named.name = name_of(axis);
        auto made = std::make_unique<MpiCommunicator>(session, group, backend, named);
        GPTRAIN_CHECK(made->rank() == rank && made->size() == size, name_of(axis), ": rank ",
                      made->rank(), " of ", made->size(), " instead of ", rank, " of ", size);
        return made;
    };
}

Mesh mpi_mesh(const MpiSession& session, const MeshShape& shape, Backend& backend) {
    check_mesh_fits(session, shape);
    const MpiOptions options = {.staged = backend.name() == "cuda"};
    Mesh mesh(shape, place_of(session.rank(), shape),
              mpi_communicators(session, shape, backend, options));
    for (int axis = 0; axis < axes; ++axis)
        mesh[static_cast<Axis>(axis)].barrier();
    return mesh;
}

}  // namespace gptrain
