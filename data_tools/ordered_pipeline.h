// One producer, several workers, and one consumer that receives results in production order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace gptrain {

/// Moves items from `produce` (its own thread; returns false at the end) through `work` (`workers`
/// threads) to `consume` (the calling thread, in production order). At most `capacity` items are in
/// flight, which bounds memory. An exception in any of the three ends the run; if there are
/// several, the caller gets that of the earliest item, so the outcome does not depend on the number
/// of workers. Use each object for one run only.
template <class In, class Out>
class OrderedPipeline {
public:
    OrderedPipeline(std::size_t workers, std::size_t capacity)
        : workers_(workers), capacity_(capacity) {}

    /// Signatures: bool produce(In&), Out work(In), void consume(Out).
    template <class Produce, class Work, class Consume>
    void run(Produce produce, Work work, Consume consume) {
        std::vector<std::jthread> threads;
        const StopOnExit stop{*this};
        threads.emplace_back([&] { run_producer(produce); });
        for (std::size_t i = 0; i < workers_; ++i)
            threads.emplace_back([&] { run_worker(work); });
        while (const std::unique_ptr<Item> item = next_done()) {
            if (item->error) std::rethrow_exception(item->error);
            consume(std::move(item->out));
        }
    }

private:
    struct Item {
        In in;
        Out out;
        std::exception_ptr error;
        bool done = false;
    };

    /// Stops all threads, however `run` exits.
    struct StopOnExit {
        OrderedPipeline& pipeline;
        ~StopOnExit() {
            const std::lock_guard lock(pipeline.mutex_);
            pipeline.stopped_ = true;
            pipeline.changed_.notify_all();
        }
    };

    void run_producer(auto& produce) {
        std::exception_ptr error;
        try {
            while (wait_for_room()) {
                auto item = std::make_unique<Item>();
                if (!produce(item->in)) break;
                const std::lock_guard lock(mutex_);
                items_.push_back(std::move(item));
                changed_.notify_all();
            }
        } catch (...) {
            error = std::current_exception();
        }
        const std::lock_guard lock(mutex_);
        produced_all_ = true;
        producer_error_ = error;
        changed_.notify_all();
    }

    void run_worker(auto& work) {
        while (Item* item = next_pending()) {
            try {
                item->out = work(std::move(item->in));
            } catch (...) {
                item->error = std::current_exception();
            }
            const std::lock_guard lock(mutex_);
            item->done = true;
            changed_.notify_all();
        }
    }

    bool wait_for_room() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopped_ || items_.size() < capacity_; });
        return !stopped_;
    }

    /// Returns null when there is no more work.
    Item* next_pending() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopped_ || started_ < items_.size() || produced_all_; });
        return stopped_ || started_ == items_.size() ? nullptr : items_[started_++].get();
    }

    /// Returns null after the last item.
    std::unique_ptr<Item> next_done() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return items_.empty() ? produced_all_ : items_.front()->done; });
        if (items_.empty()) {
            if (producer_error_) std::rethrow_exception(producer_error_);
            return nullptr;
        }
        std::unique_ptr<Item> item = std::move(items_.front());
        items_.pop_front();
        --started_;
        changed_.notify_all();
        return item;
    }

    const std::size_t workers_;
    const std::size_t capacity_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::unique_ptr<Item>> items_;  // in order; the first `started_` are in progress
    std::size_t started_ = 0;
    bool produced_all_ = false;
    std::exception_ptr producer_error_;
    bool stopped_ = false;
};

}  // namespace gptrain
