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
#include "cuda/runtime_types.h"
#include "emulator/grid.h"

namespace gptrain::cuda {

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
MemoryInfo memory_info();

void copy(void* to, const void* from, std::int64_t bytes, const Stream& stream);
void copy_rows(const RowCopy& rows, const Stream& stream);
void set_bytes(void* to, int value, std::int64_t bytes, const Stream& stream);

template <class... Parameters, class... Arguments>
void launch(const Stream& /*stream*/, const LaunchShape& shape, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
    const std::tuple<std::remove_cv_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
    emulator::run_grid(
        {{shape.blocks, shape.blocks_y, shape.blocks_z}, shape.threads, shape.shared_bytes},
        [&] { std::apply(kernel, values); });
}

}  // namespace gptrain::cuda
