// Twin of cuda/runtime.h: one device that is the host; everything is done when it was issued.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "backend/buffer.h"
#include "emulator/grid.h"

namespace gptrain::cuda {

struct DeviceFacts {
    int index = 0;
    std::string name;
    std::string uuid;
    int major = 0;
    int minor = 0;
    int multiprocessors = 0;
    std::int64_t shared_bytes = 0;
    std::int64_t l2_bytes = 0;
    std::int64_t memory_bytes = 0;
    bool at_least(int wanted_major) const { return major >= wanted_major; }
};

/// As emulator::settings() describe it.
DeviceFacts open_device(int index);
int visible_devices();

class Event;

class Stream {
public:
    void synchronize() const {}
    void wait(const Event& /*event*/) const {}
    void* handle() const { return nullptr; }
};

class Event {
public:
    void record(const Stream& /*stream*/) const { time_ = std::chrono::steady_clock::now(); }
    void synchronize() const {}
    bool done() const { return true; }
    double milliseconds_since(const Event& start) const {
        return std::chrono::duration<double, std::milli>(time_ - start.time_).count();
    }

private:
    mutable std::chrono::steady_clock::time_point time_;
};

std::byte* allocate(std::int64_t bytes, MemorySpace space);
void release(std::byte* data, MemorySpace space) noexcept;
struct MemoryInfo {
    std::int64_t free;
    std::int64_t total;
};
MemoryInfo memory_info();

void copy(void* to, const void* from, std::int64_t bytes, const Stream& stream);
struct RowCopy {
    void* to;
    std::int64_t to_stride;
    const void* from;
    std::int64_t from_stride;
    std::int64_t row_bytes;
    std::int64_t rows;
};
void copy_rows(const RowCopy& rows, const Stream& stream);
void set_bytes(void* to, int value, std::int64_t bytes, const Stream& stream);

struct LaunchShape {
    std::int64_t blocks = 1;
    int threads = 0;
    std::int64_t shared_bytes = 0;
    std::int64_t blocks_y = 1;
    std::int64_t blocks_z = 1;
};

template <class... Parameters, class... Arguments>
void launch(const Stream& /*stream*/, const LaunchShape& shape, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
    const std::tuple<std::remove_cv_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
    emulator::run_grid(
        {{shape.blocks, shape.blocks_y, shape.blocks_z}, shape.threads, shape.shared_bytes},
        [&] { std::apply(kernel, values); });
}

}  // namespace gptrain::cuda
