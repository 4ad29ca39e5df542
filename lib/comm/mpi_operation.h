// Collectives in progress, as messages of MPI between two ranks each. Seen by the sources of this
// room only.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/byte_runs.h"
#include "comm/mpi_call.h"

namespace gptrain {

/// One collective of one rank: messages that were posted, and what is to be done when they are
/// through.
class MpiOperation {
public:
    struct Place {
        MPI_Comm comm = MPI_COMM_NULL;
        int tag = 0;
        std::int64_t message_bytes = 0;  ///< longer runs go as several messages
    };

    /// `what` is for messages of errors.
    MpiOperation(std::string what, const Place& place) : what_(std::move(what)), place_(place) {}

    /// Posts messages; both sides have the same number and size of runs. Nothing goes for no bytes.
    void send(const ByteRuns& runs, int to);
    void receive(const ByteRuns& runs, int from);
    /// Done when all ranks of the communicator have come to it.
    void enter_barrier();
    /// Does `stage` once all messages posted before it are through. It may post more.
    void then(std::function<void()> stage) { stages_.push_back(std::move(stage)); }

    /// Goes on as far as it can without waiting; whether it is done.
    bool advance();
    bool done() const { return done_; }
    /// Bytes that were handed to MPI so far.
    std::int64_t sent_bytes() const { return sent_bytes_; }

private:
    using Post = std::function<int(void* data, int count, MPI_Datatype type, MPI_Request* request)>;
    void post(const ByteRuns& runs, bool received, const Post& post);
    void post_one(void* data, int count, MPI_Datatype type, bool received, const Post& post);
    bool messages_through();

    std::string what_;
    Place place_;
    std::vector<MPI_Request> requests_;
    std::vector<MPI_Status> statuses_;
    std::vector<std::int64_t> expected_;  ///< bytes of each message, -1 where none are received
    std::deque<std::function<void()>> stages_;
    std::int64_t sent_bytes_ = 0;
    bool done_ = false;
};

/// All operations of a process that are not done. Whoever waits for one lets all go on: other ranks
/// may wait in another order, for stages that this rank has yet to come to.
class MpiProgress {
public:
    /// Lets it go on by itself from now on.
    void start(const std::shared_ptr<MpiOperation>& operation);
    void wait(const MpiOperation& operation);

private:
    void advance_all();

    std::vector<std::shared_ptr<MpiOperation>> active_;
};

}  // namespace gptrain
