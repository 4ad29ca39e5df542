// The devices that a calibration measures.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>

#include "backend/backend.h"
#include "comm/mesh.h"
#include "spec/run_spec.h"

namespace gptrain {

struct MeasuredDevices {
    DeviceChoice kind = DeviceChoice::cpu;
    std::int64_t per_node = 1;  ///< cores or GPUs
    int threads = 1;      ///< of each rank, so that all ranks of a node together use all its cores
    int max_threads = 1;  ///< that a rank may use if it has the node for itself; 1 on GPUs
    /// This rank's backend, whose ops use this number of threads until the next call.
    std::function<Backend&(int threads)> backend;
    /// Connects the ranks, which call it together. The backend is one of the above.
    std::function<Mesh(Backend& backend, const MeshShape& shape,
                       const MeshConnections& connections)>
        connect;
};

/// Communicators for these axes alone.
inline MeshConnections connections_of(std::initializer_list<Axis> used) {
    MeshConnections connections;
    connections.traffic.fill({false, false, false, false});
    for (const Axis axis : used)
        connections.traffic[static_cast<std::size_t>(axis)] = {};
    return connections;
}

}  // namespace gptrain
