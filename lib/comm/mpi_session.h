// The ranks of a run, as started by the launcher.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace gptrain {

struct MpiState;

/// An Error that all ranks throw together. One rank reports it, and all exit with its code.
class CommonError : public Error {
public:
    using Error::Error;
};

/// Returns the value of an environment variable, or null.
using Environment = std::function<const char*(const char* name)>;

/// True if a launcher can connect this process with others: mpirun of OpenMPI or MPICH, or srun
/// with PMIx, PMI or Cray's PALS. A Slurm step of several tasks without that is an Error (usage):
/// each task would believe that it is alone.
bool launcher_provides_mpi(const Environment& environment);

/// The same check after MPI has started: a world of one rank in a Slurm step of several tasks is an
/// Error (usage), unless mpirun started this process.
void check_world_size(int size, const Environment& environment);

/// Callbacks for the session's own operations, in which every rank waits for all others.
class SessionListener {
public:
    virtual ~SessionListener() = default;
    virtual void on_wait(std::string_view operation) = 0;
    virtual void on_wait_end() = 0;
};

/// "Open MPI v4.1.4": the MPI library in use, which need not have been started.
std::string mpi_version();

/// MPI from the first to the last call. A process has one session, which outlives all
/// communicators. A process without a launcher is a world of one rank and never calls MPI. Only one
/// thread calls MPI. Catch errors while the session is alive: rank 0 reports a CommonError and all
/// exit with its code; any other Error is reported by its own rank, which then calls `abort_all`.
class MpiSession {
public:
    MpiSession();
    MpiSession(const MpiSession&) = delete;
    MpiSession& operator=(const MpiSession&) = delete;
    /// Waits for all ranks; during exception unwinding it ends all ranks instead.
    ~MpiSession();

    /// True if MPI was started.
    bool running() const { return state_ != nullptr; }
    int rank() const { return rank_; }
    int size() const { return size_; }
    /// Rank and size among the ranks that share this machine's memory.
    int local_rank() const { return local_rank_; }
    int local_size() const { return local_size_; }
    /// The lowest rank on this machine: an id of the machine that all its ranks know.
    int node() const { return node_; }

    /// From now on `listener` (null: none) receives the operations below and MPI's last call. It
    /// must outlive the session or be removed first.
    void set_listener(SessionListener* listener) { listener_ = listener; }

    /// This rank's name in errors: "rank 3", until set_name.
    const std::string& name() const { return name_; }
    void set_name(std::string name) { name_ = std::move(name); }

    /// All ranks call it: returns every rank's text, in rank order. For a few kilobytes.
    std::vector<std::string> exchange(const std::string& mine) const;
    /// All ranks call it: returns every rank's text, in rank order, on rank 0 and nothing on the
    /// others. For texts below 2 GiB.
    std::vector<std::string> gather(const std::string& mine) const;
    /// All ranks call it: merges the texts of all ranks along a binomial tree. Returns the result
    /// on rank 0, nothing on the others. `merge` gets the text of a range of ranks and that of the
    /// range after it. For texts below 2 GiB.
    using Merge = std::function<std::string(const std::string& lower, const std::string& higher)>;
    std::string reduce(std::string mine, const Merge& merge) const;
    /// All ranks call it: rank 0 calls `text_for` for each rank in turn and each receives its text.
    /// For texts below 2 GiB.
    std::string scatter(const std::function<std::string(int rank)>& text_for) const;
    /// All ranks call it: returns rank 0's text. For texts below 2 GiB.
    std::string broadcast(std::string text) const;
    /// All ranks call it: sends the messages that `next` returns, until it returns an empty one, to
    /// rank `to`, and calls `take` with each message that arrives from rank `from`. Either may be
    /// `nobody`; a rank that sends to this one must be its `from`. For messages below 2 GiB, each
    /// valid until the next. If `next` or `take` throws on a rank, that rank sends no more but
    /// receives and drops the rest, so that no other rank waits for it; then the call throws.
    static constexpr int nobody = -1;
    using Message = std::span<const std::byte>;
    void pass(const std::function<Message()>& next, int to,
              const std::function<void(Message)>& take, int from) const;
    /// All ranks call it: returns the maximum over the ranks.
    std::int64_t max(std::int64_t mine) const;
    /// All ranks call it: returns the sum over the ranks.
    std::int64_t sum(std::int64_t mine) const;
    /// All ranks call it: sets each value to its sum over the ranks, which all give as many.
    void sum(std::span<double> values) const;
    void sum(std::span<std::int64_t> values) const;
    /// All ranks call it: returns the exclusive or over the ranks.
    std::uint64_t exclusive_or(std::uint64_t mine) const;
    /// All ranks call it: each runs `work`. If it throws on some, all throw the first of these
    /// ranks' failures (failure_of), as a CommonError that begins with the rank's name. `work` may
    /// itself call run_on_all, and other operations of all ranks only at its beginning or directly
    /// after a run_on_all: a rank that fails in between joins the next run_on_all with its failure,
    /// and all ranks throw there.
    void run_on_all(const std::function<void()>& work) const;
    /// The same, with work on rank 0 only.
    void run_on_first(const std::function<void()>& work) const {
        run_on_all([&] {
            if (rank() == 0) work();
        });
    }
    /// Ends all ranks immediately, wherever they are: for a fault that only this rank knows, after
    /// it has reported it.
    [[noreturn]] void abort_all(ExitCode code) const;

private:
    friend class MpiCommunicator;

    std::unique_ptr<MpiState> state_;
    SessionListener* listener_ = nullptr;
    std::string name_;
    int rank_ = 0;
    int size_ = 1;
    int local_rank_ = 0;
    int local_size_ = 1;
    int node_ = 0;
};

}  // namespace gptrain
