// One program as several ranks: what they must have in common, and how they fail.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "comm/mesh.h"
#include "comm/mpi_session.h"
#include "spec/run_plan.h"
#include "watch/watchdog.h"

namespace gptrain {

class Ranks {
public:
    Ranks() = default;
    /// A rank that leaves ignores SIGTERM: its work is done, and its exit code has to reach the
    /// launcher, which ends the ranks that are left once the first one is gone.
    ~Ranks();
    Ranks(const Ranks&) = delete;
    Ranks& operator=(const Ranks&) = delete;

    const MpiSession& session() const { return session_; }
    /// All ranks run the same program on the same kind of machine, else Error (usage) on all that
    /// names the first one that differs. To be asked first: other programs talk in other ways.
    void check_same_program() const;
    /// All ranks read the same spec, else the same.
    void check_same_spec(const std::string& spec_yaml) const;
    /// From now on errors say where in the mesh their rank stands, and on which node.
    void set_mesh(const MeshShape& mesh);
    /// "CPU with 2 threads", or how many they have at least and at most. They call it together.
    std::string cpu_name() const;

    /// Watches over these ranks from now on until all have left; a rank on a CPU without others,
    /// which waits for nothing that could hang, is not watched. They call it together.
    Watchdog& watch(const RunSpec& spec, const MeshShape& mesh, bool cuda);

    /// Threads for this rank: the cores that it may run on over the ranks that may run on the same,
    /// unless OMP_NUM_THREADS says otherwise: of more threads than cores rank 0 warns. Alone a rank
    /// keeps what OpenMP gives it.
    void share_cores() const;

    /// Does `work`. An Error that all ranks throw together is said by rank 0; one that a rank alone
    /// meets is said by that rank, which ends all others with its code. Without a launcher Errors
    /// go on as they are.
    ExitCode run(const std::function<ExitCode()>& work) const;

private:
    [[noreturn]] void end_all(const std::string& message, ExitCode code) const;

    std::unique_ptr<Watchdog> watchdog_;  // before the session, whose last call it sees
    MpiSession session_;
};

}  // namespace gptrain
