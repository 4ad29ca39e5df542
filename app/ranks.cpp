#include "ranks.h"

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstdlib>
#include <omp.h>
#include <vector>

#include "base/cores.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/process.h"
#include "child_checks.h"
#include "comm/run_rank.h"
#include "metrics/run_directory.h"
#include "version.h"
#include "watch/nccl_report.h"

namespace gptrain {
namespace {

/// The program's version, the checksum of its file, and its byte order.
std::string program_identity() {
    const bool little = std::endian::native == std::endian::little;
    return text(version_text(), ", build ", program_checksum(),
                little ? ", little-endian" : ", big-endian");
}

}  // namespace

void require_one_rank(const MpiSession& ranks, std::string_view command) {
    ranks.run_on_all([&] {
        if (ranks.size() == 1) return;
        fail(ExitCode::usage, "gptrain ", command, " runs on one rank, not ", ranks.size(),
             "; start it without a launcher");
    });
}

Ranks::~Ranks() {
    std::signal(SIGTERM, SIG_IGN);
}

Watchdog& Ranks::watch(const RunSpec& spec, const MeshShape& mesh, bool cuda,
                       const std::filesystem::path& nccl_file) {
    WatchdogOptions options = {.hang_seconds = static_cast<double>(spec.faults.hang_seconds),
                               .silence_factor = spec.faults.silence_factor,
                               .mesh = mesh,
                               .nccl_file = nccl_file};
    if (!nccl_file.empty()) options.nccl_address = nccl_report_address(cuda);
    if (session_.size() == 1 && !cuda) options.hang_seconds = 0;
    watchdog_ = std::make_unique<Watchdog>(session_, options);
    session_.set_listener(&watchdog_->progress());
    return *watchdog_;
}

void Ranks::share_cores() const {
    // The number of threads does not follow the load, and the system's limit holds.
    omp_set_dynamic(0);
    omp_set_num_threads(std::min(omp_get_max_threads(), omp_get_thread_limit()));
    const std::string own = allowed_cores();
    if (std::getenv("OMP_NUM_THREADS") != nullptr) {
        const auto own_cores = std::count(own.begin(), own.end(), '1');
        if (session_.rank() == 0 && omp_get_max_threads() > own_cores) {
            warn("OMP_NUM_THREADS sets ", omp_get_max_threads(),
                 " threads, but this process may use only ", own_cores,
                 own_cores == 1 ? " core" : " cores", ", which is far slower; set it to ",
                 own_cores, " or unset it");
        }
        return;
    }
    if (session_.size() == 1) return;
    // Sends a checksum, because a digit per core would be a kilobyte or more per rank.
    const std::string mine = text(session_.node(), " ", crc32c(own.data(), own.size()));
    const std::vector<std::string> all = session_.exchange(mine);
    const auto sharers = std::count(all.begin(), all.end(), mine);
    const auto cores = std::count(own.begin(), own.end(), '1');
    const auto share = static_cast<int>(std::max<std::ptrdiff_t>(1, cores / sharers));
    omp_set_num_threads(std::min(share, omp_get_thread_limit()));
}

void Ranks::check_same_program() const {
    if (session_.size() == 1) return;
    const std::vector<std::string> all =
        session_.exchange(text(host_name(), " is ", program_identity()));
    const auto program = [](const std::string& one) { return one.substr(one.find(" is ")); };
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (program(all[rank]) == program(all[0])) continue;
        throw CommonError(ExitCode::usage,
                          text("rank 0 on ", all[0], ", rank ", rank, " on ", all[rank],
                               "; start the same program on all nodes"));
    }
}

void Ranks::check_same_spec(const std::string& spec_yaml) const {
    const bool differs = session_.broadcast(spec_yaml) != spec_yaml;
    // The lowest rank that differs.
    const std::int64_t rank =
        session_.size() - session_.max(differs ? session_.size() - session_.rank() : 0);
    if (rank == session_.size()) return;
    const bool named = rank == session_.rank() || session_.rank() == 0;
    const std::vector<std::string> hosts = session_.exchange(named ? host_name() : "");
    throw CommonError(ExitCode::usage, text("the run spec of rank ", rank, " on ",
                                            hosts[static_cast<std::size_t>(rank)],
                                            " differs from that of rank 0 on ", hosts[0],
                                            "; use the same file and --set on all nodes"));
}

void Ranks::set_mesh(const MeshShape& mesh) {
    session_.set_name(text("rank ", session_.rank(), " (", to_text(place_of(session_.rank(), mesh)),
                           ") on ", host_name()));
}

std::string Ranks::cpu_name() const {
    const std::int64_t own = omp_get_max_threads();
    const std::int64_t most = session_.max(own);
    const std::int64_t least = -session_.max(-own);
    const std::string range = least < most ? text(least, " to ") : "";
    return text("CPU with ", range, most, most == 1 ? " thread" : " threads");
}

ExitCode Ranks::run(const std::function<ExitCode()>& work) const {
    return run_rank(session_, "gptrain", work);
}

}  // namespace gptrain
