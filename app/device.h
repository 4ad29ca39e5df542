// The only file that knows which backends are built.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "comm/comm_listener.h"
#include "comm/mesh.h"
#include "comm/mpi_session.h"
#include "hardware/profile.h"
#include "metrics/start_times.h"
#include "spec/run_spec.h"

namespace gptrain {

/// "cpu backend" or "cpu and cuda backends".
std::string_view built_backends();

/// The value of --device: "cpu", "cuda", or nothing for automatic. Anything else is an Error
/// (usage).
DeviceChoice parse_device(const std::string& word);

/// The backend that a run computes on.
struct Device {
    std::unique_ptr<Backend> backend;
    bool cuda = false;
    bool mpi_messages = false;   ///< several ranks share a GPU, and send through host memory
    bool peer_messages = false;  ///< several ranks share a GPU, and send by copies
    bool deterministic = true;
};

/// Opens the device that the run spec asks for; all ranks call it together and use the same kind.
/// Throws Error (usage) if the machine or the program lacks it. Environment variables can choose
/// how a GPU computes (options_from_environment). If `cache` is given, a GPU's backend tunes
/// (Backend::tune), and rank 0 stores its choices in that folder; an empty one stores nothing.
/// `times` learns what it takes, unless it is null.
Device open_device(const RunSpec& spec, const MpiSession& session,
                   const std::optional<std::filesystem::path>& cache = std::nullopt,
                   StartTimes* times = nullptr);
/// With parallel.peer: auto on GPUs, and between ranks that share one by copies, the axes whose
/// messages are copies between the GPUs of a node (cuda::choose_peer_axes). `saved`: those of the
/// checkpoint that the run resumes. All ranks call it together.
std::optional<PeerAxes> choose_peer_axes(const Device& device, const MpiSession& session,
                                         const RunPlan& plan,
                                         const std::optional<PeerAxes>& saved = {});
/// Connects the ranks, which call it together: with NCCL, except for the axes in `peer`, if each
/// has its own GPU or they share one over NCCL, otherwise with MPI. `listener` is notified of all
/// operations and outlives the mesh.
Mesh open_mesh(const Device& device, const MpiSession& session, const MeshShape& shape,
               const MeshConnections& connections, CommListener& listener,
               const std::optional<PeerAxes>& peer = {});

/// The mesh of a run that trains: chooses how its messages travel (choose_peer_axes) and, by that,
/// how the plan cuts linear layers.
Mesh open_training_mesh(const Device& device, const MpiSession& session, RunPlan& plan,
                        CommListener& listener, const std::optional<PeerAxes>& saved = {});

/// Error (usage, common) if the plan has FP8 with scales for blocks and a rank's GPU has no such
/// GEMMs. All ranks call it together.
void require_fp8_blocks(const Device& device, const RunPlan& plan, const MpiSession& session);

/// True if the devices of all ranks have GEMMs in fp8. All ranks call it together.
bool have_fp8(const Device& device, const MpiSession& session);

/// True if a plan is for GPUs when nothing runs: as the spec asks, regardless of this machine's
/// devices and of the backends in this program; for `auto`, as a run here would choose. With
/// `hardware`, as its kind says; Error (usage) if the spec asks for another kind of device.
bool plan_for_cuda(DeviceChoice choice, const HardwareProfile* hardware = nullptr);
/// The memory needs of a GPU's backend, or of the CPU backend on this machine.
BackendMemory backend_memory(bool cuda);

}  // namespace gptrain
