// The one place that knows which backends were built.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
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

/// What the run spec asks for, for each of the ranks, which call it together; all compute on the
/// same kind. Error (usage) where the machine or the program lacks the device. The environment may
/// choose how a GPU computes (options_of_environment). With a folder `cache` a GPU's backend tunes
/// (Backend::tune), and rank 0's keeps its choices there.
Device open_device(const RunSpec& spec, const MpiSession& session,
                   const std::optional<std::filesystem::path>& cache = std::nullopt);
/// The communicators of the ranks, which call it together: over NCCL on GPUs of their own, else
/// over MPI. `listener` is told of all their operations and outlives the mesh.
Mesh open_mesh(const Device& device, const MpiSession& session, const MeshShape& shape,
               const MeshLinks& links, CommListener& listener);

/// Whether a plan that nothing is run of is for GPUs: what the spec asks for, whatever this machine
/// has and this program was built with; `auto` is what a run here would take.
bool plans_for_cuda(DeviceChoice choice);
/// What the backend of a GPU, or of the CPU of this machine, needs.
BackendNeeds device_needs(bool cuda);

}  // namespace gptrain
