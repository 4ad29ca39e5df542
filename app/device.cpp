#include "device.h"

#include <omp.h>
#include <utility>
#include <vector>

#include "agreed_attention.h"
#include "base/error.h"
#include "base/log.h"
#include "child_checks.h"
#include "comm/mpi_mesh.h"
#include "cpu/cpu_backend.h"
#include "cuda/cuda_backend.h"
#include "cuda/mesh/device_choice.h"
#include "cuda/mesh/mesh.h"
#include "cuda/mesh/peers.h"
#include "cuda/needs.h"
#include "cuda/runtime/probe.h"
#include "schedule/stage_plan.h"
#include "spec/parallel_plan.h"

namespace gptrain {
namespace {

/// The GPU of a single rank.
constexpr int first_device = 0;

bool would_use_cuda(DeviceChoice choice) {
    if (choice == DeviceChoice::cpu) return false;
    const cuda::DeviceProbe probe = cuda::probe_device(first_device);
    if (choice == DeviceChoice::automatic) return probe.state == cuda::DeviceState::usable;
    if (probe.state == cuda::DeviceState::not_built)
        fail(ExitCode::usage, "device: cuda: ", probe.reason, "; set it to cpu or auto");
    return true;
}

Device open_cpu(DeviceChoice choice) {
    if (choice == DeviceChoice::automatic) {
        const cuda::DeviceProbe probe = cuda::probe_device(first_device);
        if (probe.state == cuda::DeviceState::unusable)
            warn("device: auto uses the CPU: ", probe.reason);
    }
    return {.backend = cpu::make_backend()};
}

/// The faults of the attention kernels for sm_90a that each rank has found; empty if there are
/// none. On each node a rank checks them, in child processes and before it opens its GPU: an
/// exclusive GPU has one user.
std::vector<std::string> attention_faults(const MpiSession& session) {
    int device = 0;
    bool runs_them = false;
    session.run_on_all([&] {
        device = cuda::device_of_rank(session);
        const cuda::DeviceProbe probe = cuda::probe_device(device);
        runs_them = probe.major == 9 && probe.minor == 0 &&
                    cuda::options_from_environment().attention != cuda::AttentionChoice::portable;
    });
    const auto nodes = session.exchange(runs_them ? text(session.node()) : "");
    std::string own;
    session.run_on_all([&] {
        if (!checks_attention(nodes, session.rank())) return;
        const std::string driver = cuda::driver_text();
        own = attention_fault_or_recall(
            NodeCache::of_this_user(), driver.empty() ? driver : cuda::device_name(device),
            text("build ", program_checksum(), ", ", driver),
            [&](std::chrono::seconds limit) { return check_attention_in_child(device, limit); });
        if (!own.empty() && session.size() > 1) own = session.name() + ": " + own;
    });
    return session.exchange(own);
}

/// Only rank 0 tunes GEMMs, and stores the choices.
Device open_cuda(int index, const std::vector<std::string>& attention_faults, const RunSpec& spec,
                 const MpiSession& session, const std::optional<std::filesystem::path>& cache) {
    cuda::Options options = cuda::options_from_environment();
    options.attention = agreed_attention(attention_faults, options.attention, session.rank());
    // It is done.
    options.check_attention = [](int /*device*/) { return std::string(); };
    options.deterministic = spec.deterministic;
    options.tune_gemms = cache.has_value();
    if (cache && !cache->empty() && session.rank() == 0) options.tuning_file = *cache / "gemms.txt";
    return {.backend = cuda::make_backend(index, options),
            .cuda = true,
            .deterministic = spec.deterministic};
}

}  // namespace

std::string_view built_backends() {
    const bool cuda = cuda::probe_device(first_device).state != cuda::DeviceState::not_built;
    return cuda ? "cpu and cuda backends" : "cpu backend";
}

DeviceChoice parse_device(const std::string& word) {
    if (word == "cpu") return DeviceChoice::cpu;
    if (word == "cuda") return DeviceChoice::cuda;
    if (word.empty()) return DeviceChoice::automatic;
    fail(ExitCode::usage, "--device ", word, ": give cpu or cuda");
}

Device open_device(const RunSpec& spec, const MpiSession& session,
                   const std::optional<std::filesystem::path>& cache, StartTimes* times) {
    const auto begin = [&](StartPhase phase) {
        if (times != nullptr) times->begin(phase);
    };
    begin(StartPhase::device);
    bool cuda = false;
    session.run_on_all([&] { cuda = would_use_cuda(spec.device); });
    const auto with_gpu = session.max(cuda ? 1 : 0);
    const auto without_gpu = session.max(cuda ? 0 : 1);
    if (with_gpu + without_gpu > 1) {
        throw CommonError(ExitCode::usage,
                          "device: auto finds a GPU on some ranks and none on others; set it to "
                          "cuda or cpu, or remove the nodes without a GPU");
    }
    Device device;
    if (!cuda) {
        session.run_on_all([&] { device = open_cpu(spec.device); });
        return device;
    }
    begin(StartPhase::check);
    const std::vector<std::string> faults = attention_faults(session);
    begin(StartPhase::device);
    const cuda::ChosenDevice chosen = cuda::choose_device(session);
    session.run_on_all([&] { device = open_cuda(chosen.index, faults, spec, session, cache); });
    device.mpi_messages = chosen.sharing == cuda::Sharing::mpi;
    device.peer_messages = chosen.sharing == cuda::Sharing::peer;
    return device;
}

std::optional<PeerAxes> choose_peer_axes(const Device& device, const MpiSession& session,
                                         const RunPlan& plan,
                                         const std::optional<PeerAxes>& saved) {
    if (!device.cuda || device.mpi_messages) return std::nullopt;
    if (!plan.peer_messages && !device.peer_messages) return std::nullopt;
    return cuda::choose_peer_axes(session, plan.mesh, *device.backend, saved);
}

Mesh open_mesh(const Device& device, const MpiSession& session, const MeshShape& shape,
               const MeshConnections& connections, CommListener& listener,
               const std::optional<PeerAxes>& peer) {
    if (!session.running()) return one_rank_mesh();
    Backend& backend = *device.backend;
    if (!device.cuda || device.mpi_messages)
        return mpi_mesh(session, shape, connections, backend, &listener);
    cuda::set_nccl_environment(device.deterministic);
    Mesh mesh =
        cuda::gpu_mesh(session, shape, connections, backend, &listener, peer.value_or(PeerAxes{}));
    mesh.set_peer_axes(peer);
    return mesh;
}

Mesh open_training_mesh(const Device& device, const MpiSession& session, RunPlan& plan,
                        CommListener& listener, const std::optional<PeerAxes>& saved) {
    const auto peer = choose_peer_axes(device, session, plan, saved);
    if (peer && contains(*peer, Axis::tp)) take_pieces_by_rank(plan);
    return open_mesh(device, session, plan.mesh, mesh_connections(plan), listener, peer);
}

void require_fp8_blocks(const Device& device, const RunPlan& plan, const MpiSession& session) {
    if (!plan.fp8_blocks) return;
    const cuda::DeviceProbe probe = cuda::probe_device(cuda::device_of_rank(session));
    const bool able = !device.cuda || std::pair(probe.major, probe.minor) == std::pair(9, 0);
    if (session.max(able ? 0 : 1) == 0) return;
    throw CommonError(ExitCode::usage,
                      "precision.fp8_recipe: block needs GPUs of compute capability 9.0: cuBLASLt "
                      "multiplies with such scales on no others; set it to tensor");
}

bool have_fp8(const Device& device, const MpiSession& session) {
    const cuda::DeviceProbe probe = cuda::probe_device(cuda::device_of_rank(session));
    const bool own = device.cuda && std::pair(probe.major, probe.minor) >= std::pair(8, 9);
    return session.max(own ? 0 : 1) == 0;
}

bool plan_for_cuda(DeviceChoice choice, const HardwareProfile* hardware) {
    if (hardware == nullptr) return choice == DeviceChoice::cuda || would_use_cuda(choice);
    if (choice != DeviceChoice::automatic && choice != hardware->kind) {
        fail(ExitCode::usage, "--hardware ", hardware->name, " is of kind ",
             name_of(hardware->kind), ", but the run spec has device: ", name_of(choice));
    }
    return hardware->kind == DeviceChoice::cuda;
}

BackendMemory backend_memory(bool cuda) {
    if (cuda) return cuda::backend_memory();
    return {.scratch =
                [](const OpLimits& limits) {
                    return cpu::scratch_bytes(limits, omp_get_max_threads());
                },
            .messages_on_host = true};
}

}  // namespace gptrain
