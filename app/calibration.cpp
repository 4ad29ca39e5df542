#include "calibration.h"

#include <filesystem>
#include <map>
#include <omp.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/log.h"
#include "base/output_file.h"
#include "calibrate/calibrate.h"
#include "calibrate/profile_text.h"
#include "comm/mpi_mesh.h"
#include "cpu/cpu_backend.h"
#include "device.h"
#include "hardware/load_profile.h"
#include "ranks.h"

namespace gptrain {
namespace {

/// One backend for each number of threads.
class CpuBackends {
public:
    Backend& with_threads(int threads) {
        omp_set_num_threads(threads);
        std::unique_ptr<Backend>& backend = backends_[threads];
        if (!backend) backend = cpu::make_backend();
        return *backend;
    }

private:
    std::map<int, std::unique_ptr<Backend>> backends_;
};

MeasuredDevices measured_cpus(CpuBackends& backends, const MpiSession& session) {
    const int threads = omp_get_max_threads();
    return {.kind = DeviceChoice::cpu,
            .per_node = std::int64_t{threads} * session.local_size(),
            .threads = threads,
            .max_threads = omp_get_num_procs(),
            .backend = [&](int wanted) -> Backend& { return backends.with_threads(wanted); },
            .connect =
                [&](Backend& backend, const MeshShape& shape, const MeshConnections& connections) {
                    return session.running() ? mpi_mesh(session, shape, connections, backend)
                                             : one_rank_mesh();
                }};
}

MeasuredDevices measured_gpus(const Device& device, const MpiSession& session,
                              CommListener& listener) {
    return {.kind = DeviceChoice::cuda,
            .per_node = session.local_size(),
            .threads = 1,
            .max_threads = 1,
            .backend = [&](int /*threads*/) -> Backend& { return *device.backend; },
            .connect =
                [&](Backend& /*the device's*/, const MeshShape& shape,
                    const MeshConnections& connections) {
                    return open_mesh(device, session, shape, connections, listener);
                }};
}

/// "Measured by gptrain plan --calibrate on 2026-01-05 with 2 ranks (CPU with 1 thread)."
std::string origin(const Ranks& ranks, const std::string& device) {
    return text("Measured by gptrain plan --calibrate on ", today(), " with ",
                counted(ranks.session().size(), "rank"), " (", device, ").");
}

void check_cores(const MpiSession& session) {
    session.run_on_all([&] {
        const auto cores = sysconf(_SC_NPROCESSORS_ONLN);
        if (session.local_size() > cores) {
            fail(ExitCode::usage, "--calibrate: ", session.local_size(), " ranks share ", cores,
                 " cores; start at most one rank for each core");
        }
    });
}

/// OpenMP would take threads on the cores of other ranks for too many and let them sleep.
void check_unbound(const MpiSession& session) {
    const std::string own = allowed_cores();
    const std::string node = text(session.node(), " ");
    bool bound = false;
    for (const std::string& other : session.exchange(node + own))
        bound = bound || (other.starts_with(node) && other != node + own);
    if (session.max(bound ? 1 : 0) == 0) return;
    throw CommonError(ExitCode::usage,
                      "--calibrate also measures one rank with the threads of several, but the "
                      "launcher has bound ranks to cores of their own; start them with mpirun "
                      "--bind-to none or srun --cpu-bind=none");
}

HardwareProfile measure(const std::string& file, const Device& device, const MpiSession& session) {
    if (device.cuda) {
        CommListeners nobody;
        const std::vector<Probe> probes = gpu_probes(have_fp8(device, session));
        return calibrate(session, {.folder = folder_of_output(file),
                                   .devices = measured_gpus(device, session, nobody),
                                   .probes = probes});
    }
    check_cores(session);
    check_unbound(session);
    CpuBackends backends;
    return calibrate(session, {.folder = folder_of_output(file),
                               .devices = measured_cpus(backends, session),
                               .probes = cpu_probes()});
}

ExitCode calibrate_as_rank(const std::string& file, DeviceChoice choice, const Ranks& ranks) {
    const MpiSession& session = ranks.session();
    ranks.check_same_program();
    session.run_on_first([&] {
        check_output_file(file, "--calibrate");
        if (session.size() > 1) return;
        warn(
            "--calibrate measures no messages with one rank: estimates for several ranks need a "
            "profile that several measured (mpirun --bind-to none -n 2 gptrain plan --calibrate "
            "FILE)");
    });
    ranks.share_cores();
    const std::string cpu = ranks.cpu_name();
    RunSpec spec;
    spec.device = choice;
    const std::filesystem::path stores_nothing;
    const Device device = open_device(spec, session, stores_nothing);
    const HardwareProfile profile = measure(file, device, session);
    session.run_on_first([&] {
        const std::string yaml = profile_text(profile, origin(ranks, device.cuda ? "GPU" : cpu));
        parse_profile(yaml, file);
        write_output_file(file, yaml);
        print("wrote ", file, ": ", std::ssize(profile.device.measured), " ops and ",
              std::ssize(profile.node.link.measured), " messages measured");
    });
    return ExitCode::done;
}

}  // namespace

ExitCode run_calibrate(const std::string& file, DeviceChoice device) {
    Ranks ranks;
    return ranks.run([&] { return calibrate_as_rank(file, device, ranks); });
}

}  // namespace gptrain
