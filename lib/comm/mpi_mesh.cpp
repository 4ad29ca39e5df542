#include "comm/mpi_mesh.h"

#include <utility>

#include "base/checked.h"

namespace gptrain {

void check_mesh_fits(const MpiSession& session, const MeshShape& shape) {
    if (session.size() == shape.size()) return;
    fail(ExitCode::usage, "the mesh (data ", shape.data, " x pipeline ", shape.pipeline,
         " x context ", shape.context, " x tensor ", shape.tensor, ") needs ", shape.size(),
         " ranks, but ", session.size(), " were started; change `parallel` or start ", shape.size(),
         " with `mpirun -n` or `srun --mpi=pmix -n`");
}

CommunicatorFactory mpi_communicators(const MpiSession& session, Backend& backend,
                                      const MpiOptions& options) {
    return [&session, &backend, options](const RankGroup& wanted) -> std::unique_ptr<Communicator> {
        if (!session.running()) return std::make_unique<OneRankCommunicator>();
        MpiOptions named = options;
        named.name = name_of(wanted.axis);
        named.traffic = wanted.traffic;
        const MpiGroup group = {.color = narrow<int>(wanted.id), .key = wanted.rank};
        auto made = std::make_unique<MpiCommunicator>(session, group, backend, named);
        GPTRAIN_CHECK(made->rank() == wanted.rank && made->size() == wanted.size, named.name,
                      ": rank ", made->rank(), " of ", made->size(), " instead of ", wanted.rank,
                      " of ", wanted.size);
        if (wanted.size == 1) return std::make_unique<OneRankCommunicator>();
        return made;
    };
}

Mesh mpi_mesh(const MpiSession& session, const MeshShape& shape, const MeshConnections& connections,
              Backend& backend, CommListener* listener) {
    check_mesh_fits(session, shape);
    const MpiOptions options = {.staged = !backend.is_host()};
    CommunicatorFactory make = mpi_communicators(session, backend, options);
    if (listener != nullptr) make = observed(std::move(make), *listener);
    Mesh mesh(shape, place_of(session.rank(), shape), connections, make);
    mesh.warm_up();
    return mesh;
}

}  // namespace gptrain
