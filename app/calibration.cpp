#include "calibration.h"

#include <cerrno>
#include <filesystem>
#include <omp.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/temporary_file.h"
#include "calibrate/calibrate.h"
#include "calibrate/profile_text.h"
#include "cpu/cpu_backend.h"
#include "hardware/load_profile.h"
#include "ranks.h"

namespace gptrain {
namespace {

std::unique_ptr<Backend> make_cpu(int threads) {
    omp_set_num_threads(threads);
    return cpu::make_backend();
}

/// "Measured by gptrain plan --calibrate on 2026-01-05 with 2 ranks (CPU with 1 thread)."
std::string origin(const Ranks& ranks, const std::string& cpu) {
    return text("Measured by gptrain plan --calibrate on ", today(), " with ",
                counted(ranks.session().size(), "rank"), " (", cpu, ").");
}

/// The measurement takes minutes and writes its file at the end.
void require_writable_folder(const std::string& file) {
    const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
    if (::access(folder.c_str(), W_OK | X_OK) != 0)
        fail_errno(errno, "--calibrate ", file, ": cannot write to the folder ", folder.string());
}

ExitCode calibrate_as_rank(const std::string& file, const Ranks& ranks) {
    const MpiSession& session = ranks.session();
    ranks.check_same_program();
    session.run_on_all([&] {
        const auto cores = sysconf(_SC_NPROCESSORS_ONLN);
        if (session.local_size() > cores) {
            fail(ExitCode::usage, "--calibrate: ", session.local_size(), " ranks share ", cores,
                 " cores; start at most one rank for each core");
        }
    });
    session.run_on_first([&] {
        require_writable_folder(file);
        if (session.size() > 1) return;
        warn(
            "--calibrate measures no messages with one rank: estimates for several ranks need a "
            "profile that several measured (mpirun -n 2 gptrain plan --calibrate FILE)");
    });
    ranks.share_cores();
    const std::string cpu = ranks.cpu_name();
    const HardwareProfile profile = calibrate(session, {.file = file,
                                                        .make = make_cpu,
                                                        .threads = omp_get_max_threads(),
                                                        .max_threads = omp_get_num_procs()});
    session.run_on_first([&] {
        const std::string yaml = profile_text(profile, origin(ranks, cpu));
        parse_profile(yaml, file);
        write_file_durably(file, yaml);
        print("wrote ", file, ": ", std::ssize(profile.device.measured), " ops and ",
              std::ssize(profile.node.link.measured), " messages measured");
    });
    return ExitCode::done;
}

}  // namespace

ExitCode run_calibrate(const std::string& file) {
    Ranks ranks;
    return ranks.run([&] { return calibrate_as_rank(file, ranks); });
}

}  // namespace gptrain
