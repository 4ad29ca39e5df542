// The ranks of a run, as their launcher started them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace gptrain {

/// An Error that all ranks throw together; one of them says it, and all leave with its code.
class CommonError : public Error {
public:
    using Error::Error;
};

/// The value of an environment variable, or null.
using Environment = std::function<const char*(const char* name)>;

/// Whether a launcher offers to connect this process with others: mpirun of OpenMPI and MPICH, or
/// srun with PMIx or PMI. A Slurm step of several tasks without such an offer is an Error (usage):
/// each of them would believe to be alone.
bool launcher_offers_mpi(const Environment& environment);

/// The same fault seen from the other side: MPI was started and found one rank, where neither the
/// launcher nor Slurm means one.
void check_world_size(int size, const Environment& environment);

/// Is told of the session's own operations, in which every rank waits until all have come.
class SessionListener {
public:
    virtual ~SessionListener() = default;
    virtual void world_waiting(std::string_view operation) = 0;
    virtual void world_finished() = 0;
};

/// MPI from the first to the last call; one object in a process, which outlives all communicators.
/// A process that no launcher started is a world of one rank and never calls MPI. MPI is called by
/// one thread. Errors are to be caught where the session still lives: then a CommonError is said by
/// rank 0 and all leave with its code; any other Error is said by its rank, which calls `end_all`.
class MpiSession {
public:
    MpiSession();
    MpiSession(const MpiSession&) = delete;
    MpiSession& operator=(const MpiSession&) = delete;
    /// Waits until all ranks are here. While an exception flies it ends all ranks instead.
    ~MpiSession();

    /// Whether MPI was started.
    bool running() const { return state_ != nullptr; }
    int rank() const { return rank_; }
    int size() const { return size_; }
    /// Among the ranks that share this machine's memory.
    int local_rank() const { return local_rank_; }
    int local_size() const { return local_size_; }
    /// The lowest rank of this machine, as a name of the machine that all its ranks know.
    int node() const { return node_; }

    /// From now on `listener` (null: nobody) is told of the operations below and of MPI's last
    /// call. It outlives the session unless it is taken away before.
    void set_listener(SessionListener* listener) { listener_ = listener; }

    /// This rank as errors name it: "rank 3" until it is known better.
    const std::string& name() const { return name_; }
    void set_name(std::string name) { name_ = std::move(name); }

    /// The text of every rank, in the order of ranks; all ranks call it. For a few kilobytes.
    std::vector<std::string> exchange(const std::string& mine) const;
    /// The text of every rank, in the order of ranks, on rank 0; nothing on the others. All ranks
    /// call it. For texts of less than 2 GiB.
    std::vector<std::string> gather(const std::string& mine) const;
    /// The text that rank 0 has for this rank: all ranks call it, rank 0 asks `text_for` for each
    /// in turn. For texts of less than 2 GiB.
    std::string scatter(const std::function<std::string(int rank)>& text_for) const;
    /// The largest of all ranks' numbers; all ranks call it.
    std::int64_t largest(std::int64_t mine) const;
    /// Does `work` on all ranks, which call this together. Where it throws on some, all throw the
    /// first of these ranks' failure (failure_of) as a CommonError that begins with its name.
    void together(const std::function<void()>& work) const;
    /// The same where only rank 0 has something to do.
    void first_alone(const std::function<void()>& work) const {
        together([&] {
            if (rank() == 0) work();
        });
    }
    /// Ends all ranks now, wherever they are; for a fault that this rank alone knows, after it has
    /// said so.
    [[noreturn]] void end_all(ExitCode code) const;

private:
    friend class MpiCommunicator;
    struct State;

    std::unique_ptr<State> state_;
    SessionListener* listener_ = nullptr;
    std::string name_;
    int rank_ = 0;
    int size_ = 1;
    int local_rank_ = 0;
    int local_size_ = 1;
    int node_ = 0;
};

}  // namespace gptrain
