// Answers requests on a thread of its own, one after the other. Reading a long prompt takes
// seconds; on the server's thread it would hold up everyone else.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "serve/http.h"

namespace gptrain {

class RequestWorker {
public:
    using Answer = std::function<void(const HttpRequest&, const std::shared_ptr<HttpAnswer>&)>;

    /// `answer` may be called on the caller's thread for clients that have gone. It must not throw.
    explicit RequestWorker(Answer answer);
    RequestWorker(const RequestWorker&) = delete;
    RequestWorker& operator=(const RequestWorker&) = delete;
    /// Ends after the request that is being answered; the others get no answer.
    ~RequestWorker();

    /// The request is answered after those before it. A request's body is dropped when its client
    /// leaves, so the number of connections bounds the memory of all bodies.
    void add(HttpRequest request, std::shared_ptr<HttpAnswer> client);

private:
    struct Job {
        HttpRequest request;
        std::shared_ptr<HttpAnswer> client;
    };
    void work();

    Answer answer_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Job> jobs_;
    bool stops_ = false;
    std::thread thread_;
};

}  // namespace gptrain
