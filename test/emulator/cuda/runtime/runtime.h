// Twin of cuda/runtime/runtime.h, with the host as the only device. Work issued to a stream is done
// when something waits for it (emulator/queue.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "backend/buffer.h"
#include "cuda/runtime/types.h"
#include "emulator/grid.h"
#include "emulator/queue.h"

namespace gptrain::cuda {

/// As emulator::settings() describe it.
DeviceProperties open_device(int index);
int visible_device_count();

class Event;

class Stream {
public:
    enum class Priority { normal, urgent };
    explicit Stream(Priority priority = Priority::normal)
        : queue_(std::make_shared<emulator::Queue>(priority == Priority::urgent)) {}

    void synchronize() const { queue_->run_to(queue_->end()); }
    void wait(const Event& event) const;
    /// The caller issues work that is not visible here, so everything before it is done first.
    CUstream_st* handle() const {
        synchronize();
        return nullptr;
    }
    void issue(std::function<void()> work) const { queue_->add(std::move(work)); }
    /// Later work of the stream is not done before `ready`.
    void issue_wait(std::function<bool()> ready, std::function<void()> hurry = nullptr) const {
        queue_->add({.run = [] {}, .ready = std::move(ready), .hurry = std::move(hurry)});
    }

private:
    friend class Event;
    std::shared_ptr<emulator::Queue> queue_;
};

class Event {
public:
    enum class Purpose { order, time };
    explicit Event(Purpose purpose = Purpose::order) : purpose_(purpose) {}

    void record(const Stream& stream) const {
        stream.issue([time = time_] { *time = std::chrono::steady_clock::now(); });
        queue_ = stream.queue_;
        point_ = queue_->end();
    }
    void synchronize() const {
        if (queue_ != nullptr) queue_->run_to(point_);
    }
    bool has_passed() const { return queue_ == nullptr || queue_->has_reached(point_); }
    bool done() const { return queue_ == nullptr || queue_->try_run_to(point_); }
    double milliseconds_since(const Event& start) const {
        GPTRAIN_CHECK(purpose_ == Purpose::time && start.purpose_ == Purpose::time,
                      "an event that only orders work has no time");
        return std::chrono::duration<double, std::milli>(*time_ - *start.time_).count();
    }

private:
    Purpose purpose_;
    std::shared_ptr<std::chrono::steady_clock::time_point> time_ =
        std::make_shared<std::chrono::steady_clock::time_point>();
    // Where it was last recorded; no queue before that.
    mutable std::shared_ptr<emulator::Queue> queue_;
    mutable std::int64_t point_ = 0;
};

/// Waits for the event as recorded now, whatever happens to it later.
inline void Stream::wait(const Event& event) const {
    issue_wait([event] { return event.has_passed(); }, [event] { event.synchronize(); });
}

std::byte* allocate(std::int64_t bytes, MemorySpace space);
void release(std::byte* data, MemorySpace space) noexcept;
MemoryInfo memory_info();

void copy(void* to, const void* from, std::int64_t bytes, const Stream& stream);
void copy_rows(const RowCopy& rows, const Stream& stream);
void set_bytes(void* to, int value, std::int64_t bytes, const Stream& stream);

template <class... Parameters, class... Arguments>
void launch(const Stream& stream, const LaunchShape& shape, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
    const std::tuple<std::remove_cv_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
    stream.issue([=] {
        emulator::run_grid({{shape.blocks, shape.blocks_y, shape.blocks_z},
                            shape.threads,
                            shape.shared_bytes,
                            shape.cluster_blocks},
                           [&] { std::apply(kernel, values); });
    });
}

}  // namespace gptrain::cuda
