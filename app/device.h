// The one place that knows which backends were built.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "backend/backend.h"
#include "comm/comm_listener.h"
#include "comm/mesh.h"
#include "comm/mpi_session.h"
#include "spec/run_spec.h"

namespace gptrain {

/// "cpu backend" or "cpu and cuda backends".
std::string_view built_backends();

/// The backend that a run computes on.
struct Device {
    std::unique_ptr<Backend> backend;
    bool cuda = false;
    bool shared = false;  ///< several ranks have one GPU
    bool deterministic = true;
};

/// Error (usage) where the machine or the program lacks the device. The environment may choose how
/// a GPU computes (options_of_environment).
Device open_device(DeviceChoice choice);
/// What the run spec asks for, for each of the ranks, which call it together; all compute on the
/// same kind. The fastest ways to compute are looked for and kept in the folder `cache`, where the
/// device has a choice.
Device open_device(const RunSpec& spec, const MpiSession& session,
                   const std::filesystem::path& cache);
/// The communicators of the ranks, which call it together: over NCCL on GPUs of their own, else
/// over MPI. `listener` is told of all their operations and outlives the mesh.
Mesh open_mesh(const Device& device, const MpiSession& session, const MeshShape& shape,
               const MeshLinks& links, CommListener& listener);

/// What `open_device` would open, and what that needs, without the device.
bool would_use_cuda(DeviceChoice choice);
BackendNeeds device_needs(DeviceChoice choice);

}  // namespace gptrain
