#include "serve/request_worker.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace gptrain {

RequestWorker::RequestWorker(Answer answer)
    : answer_(std::move(answer)), thread_([this] { work(); }) {}

RequestWorker::~RequestWorker() {
    {
        const std::lock_guard lock(mutex_);
        stops_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

void RequestWorker::add(HttpRequest request, std::shared_ptr<HttpAnswer> client) {
    std::vector<Job> left;
    {
        const std::lock_guard lock(mutex_);
        const auto first_left = std::stable_partition(
            jobs_.begin(), jobs_.end(), [](const Job& job) { return !job.client->gone(); });
        std::move(first_left, jobs_.end(), std::back_inserter(left));
        jobs_.erase(first_left, jobs_.end());
        jobs_.push_back({std::move(request), std::move(client)});
    }
    changed_.notify_one();
    for (const Job& job : left)
        answer_(job.request, job.client);
}

void RequestWorker::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return stops_ || !jobs_.empty(); });
        if (stops_) return;
        const Job job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        answer_(job.request, job.client);
        lock.lock();
    }
}

}  // namespace gptrain
