// The ranks of one program: the values that they must have in common, and how they report failures.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "comm/mesh.h"
#include "comm/mpi_session.h"
#include "spec/run_plan.h"
#include "watch/watchdog.h"

namespace gptrain {

/// All ranks call it. Error (usage) on all if there are several: the command works on one.
void require_one_rank(const MpiSession& ranks, std::string_view command);

class Ranks {
public:
    Ranks() = default;
    /// An exiting rank ignores SIGTERM, so that its exit code reaches the launcher even though the
    /// launcher kills the remaining ranks as soon as the first one exits.
    ~Ranks();
    Ranks(const Ranks&) = delete;
    Ranks& operator=(const Ranks&) = delete;

    const MpiSession& session() const { return session_; }
    /// Checks that all ranks run the same program on the same kind of machine; otherwise throws an
    /// Error (usage) on all of them, which names the first rank that differs. Call it first: other
    /// programs may exchange other messages.
    void check_same_program() const;
    /// Checks that all ranks read the same spec; otherwise throws the same kind of error.
    void check_same_spec(const std::string& spec_yaml) const;
    /// From now on errors name their rank's place in the mesh and its node.
    void set_mesh(const MeshShape& mesh);
    /// "CPU with 2 threads", or the range of thread counts if ranks differ. All ranks call it
    /// together.
    std::string cpu_name() const;

    /// Watches these ranks from now on until all have left. All ranks call it together. A single
    /// rank on a CPU is not watched: it waits for nothing that could hang. If it hangs, NCCL's own
    /// report goes to `nccl_file`, unless that is empty.
    Watchdog& watch(const RunSpec& spec, const MeshShape& mesh, bool cuda,
                    const std::filesystem::path& nccl_file = {});

    /// Sets this rank's thread count: the cores that it may run on, divided by the number of ranks
    /// that may run on the same cores. If OMP_NUM_THREADS is set, keeps it; rank 0 warns if it
    /// exceeds the number of cores. A single rank keeps OpenMP's default.
    void share_cores() const;

    /// run_rank of gptrain.
    ExitCode run(const std::function<ExitCode()>& work) const;

private:
    std::unique_ptr<Watchdog> watchdog_;  // before the session, whose last call it observes
    MpiSession session_;
};

}  // namespace gptrain
