#include "serve/request_worker.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gptrain {
namespace {

/// An empty request takes time, too.
std::int64_t cost_of(const HttpRequest& request) {
    return 256 + std::ssize(request.body);
}

}  // namespace

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
        left = take_left();
        // An address that has had its share before waits for the others.
        std::erase_if(queues_, [&](const auto& entry) {
            return entry.second.jobs.empty() && entry.second.turn <= now_;
        });
        Queue& queue = queues_.try_emplace(request.client, Queue{.turn = now_}).first->second;
        queue.turn = std::max(queue.turn, now_);
        const std::int64_t turn = queue.last + cost_of(request);
        queue.jobs.push_back({std::move(request), std::move(client), turn});
    }
    changed_.notify_one();
    for (const Job& job : left)
        answer_(job.request, job.client);
}

std::vector<RequestWorker::Job> RequestWorker::take_left() {
    std::vector<Job> left;
    for (auto& [client, queue] : queues_) {
        const auto first_left =
            std::stable_partition(queue.jobs.begin(), queue.jobs.end(),
                                  [](const Job& job) { return !job.client->gone(); });
        std::move(first_left, queue.jobs.end(), std::back_inserter(left));
        queue.jobs.erase(first_left, queue.jobs.end());
    }
    return left;
}

std::optional<RequestWorker::Job> RequestWorker::take_next() {
    Queue* next = nullptr;
    for (auto& [client, queue] : queues_)
        if (!queue.jobs.empty() && (next == nullptr || queue.turn < next->turn)) next = &queue;
    if (next == nullptr) return std::nullopt;
    const auto job = std::min_element(next->jobs.begin(), next->jobs.end(),
                                      [](const Job& a, const Job& b) { return a.turn < b.turn; });
    now_ = next->turn;
    next->turn += cost_of(job->request);
    next->last = job->turn;
    std::optional<Job> taken = std::move(*job);
    next->jobs.erase(job);
    return taken;
}

void RequestWorker::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        std::optional<Job> job;
        changed_.wait(lock, [&] { return stops_ || (job = take_next()); });
        if (stops_) return;
        lock.unlock();
        answer_(job->request, job->client);
        job.reset();
        lock.lock();
    }
}

}  // namespace gptrain
