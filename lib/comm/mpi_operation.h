// Collectives in progress, as point-to-point MPI messages. Private to this room.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/byte_runs.h"
#include "comm/mpi_call.h"

namespace gptrain {

/// One collective of one rank: posted messages, and what to do when they are complete.
class MpiOperation {
public:
    struct Place {
        MPI_Comm comm = MPI_COMM_NULL;
        int tag = 0;
        std::int64_t message_bytes = 0;  ///< longer runs are split into several messages
    };

    /// `what` is for error messages.
    MpiOperation(std::string what, const Place& place) : what_(std::move(what)), place_(place) {}

    /// Post messages. Both sides have the same number and size of runs. Empty runs post nothing.
    void send(const ByteRuns& runs, int to);
    void receive(const ByteRuns& runs, int from);
    /// Complete when all ranks of the communicator have entered it.
    void enter_barrier();
    /// Runs `stage` once all messages posted before it are complete. It may post more.
    void then(std::function<void()> stage) { stages_.push_back(std::move(stage)); }

    /// Progresses as far as possible without blocking; returns true if done.
    bool advance();
    bool done() const { return done_; }
    /// Bytes passed to MPI so far.
    std::int64_t sent_bytes() const { return sent_bytes_; }

private:
    using Post = std::function<int(void* data, int count, MPI_Datatype type, MPI_Request* request)>;
    void post(const ByteRuns& runs, bool received, const Post& post);
    void post_one(void* data, int count, MPI_Datatype type, bool received, const Post& post);
    bool messages_complete();

    std::string what_;
    Place place_;
    std::vector<MPI_Request> requests_;
    std::vector<MPI_Status> statuses_;
    std::vector<std::int64_t> expected_;  ///< bytes of each receive, -1 for other requests
    std::deque<std::function<void()>> stages_;
    std::int64_t sent_bytes_ = 0;
    bool done_ = false;
};

/// A process's unfinished operations. Waiting for one progresses all of them: other ranks may wait
/// in another order, for stages that this rank has yet to reach.
class MpiProgress {
public:
    /// Starts to progress the operation.
    void start(const std::shared_ptr<MpiOperation>& operation);
    void wait(const MpiOperation& operation);

private:
    void advance_all();

    std::vector<std::shared_ptr<MpiOperation>> active_;
};

}  // namespace gptrain
