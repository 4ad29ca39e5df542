// Answers requests on a separate thread, one after the other. Reading a long prompt takes seconds;
// on the server's thread it would hold up everyone else.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "serve/http.h"

namespace gptrain {

/// The order is fair (start-time fair queueing, Goyal et al. 1996): addresses take turns by the
/// bytes of their requests. Within an address short requests overtake long ones, but never with
/// more bytes in all than the long request itself has.
class RequestWorker {
public:
    using Answer = std::function<void(const HttpRequest&, const std::shared_ptr<HttpAnswer>&)>;

    /// `answer` may be called on the caller's thread for clients that have gone. It must not throw.
    explicit RequestWorker(Answer answer);
    /// Ends after the request that is being answered; the others get no answer.
    ~RequestWorker();

    /// Adds a request. A request's body is dropped when its client leaves, so the number of
    /// connections bounds the memory of all bodies.
    void add(HttpRequest request, std::shared_ptr<HttpAnswer> client);

private:
    struct Job {
        HttpRequest request;
        std::shared_ptr<HttpAnswer> client;
        std::int64_t turn;  ///< in its queue: the smallest is next
    };
    /// The requests of an address.
    struct Queue {
        std::int64_t turn;      ///< among the queues: the smallest is next
        std::int64_t last = 0;  ///< the turn of the last job that was taken
        std::vector<Job> jobs = {};
    };
    void work();
    /// The jobs whose clients have gone.
    std::vector<Job> take_left();
    std::optional<Job> take_next();

    Answer answer_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, Queue> queues_;
    std::int64_t now_ = 0;  ///< the turn of the last queue from which a job was taken
    bool stops_ = false;
    std::thread thread_;
};

}  // namespace gptrain
