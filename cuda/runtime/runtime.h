// The CUDA runtime as host code sees it: streams, events, memory, launches. Every failure is an
// Error that names the call; a lack of memory is exit code `usage`, a fault of the device `bug`.
// The emulator has a twin of this file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "backend/buffer.h"
#include "cuda/runtime/types.h"

namespace gptrain::cuda {

/// Makes the device current for this thread. One that is not usable (probe.h) is an Error (usage).
DeviceFacts open_device(int index);
/// Of the devices that this process sees; 0 without a driver, or with one that is too old.
int visible_devices();

class Event;

/// A queue of work on the device, in order.
class Stream {
public:
    Stream();
    ~Stream();
    Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Stream& operator=(Stream&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }

    /// The host waits for all work.
    void synchronize() const;
    /// Later work on this stream comes after the event.
    void wait(const Event& event) const;
    /// The runtime's own.
    CUstream_st* handle() const { return handle_; }

private:
    CUstream_st* handle_ = nullptr;
};

/// A point in a stream.
class Event {
public:
    Event();
    ~Event();
    Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Event& operator=(Event&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }

    void record(const Stream& stream) const;
    void synchronize() const;
    bool done() const;
    /// Milliseconds of the device between two events that are done.
    double milliseconds_since(const Event& start) const;
    CUevent_st* handle() const { return handle_; }

private:
    CUevent_st* handle_ = nullptr;
};

/// Memory of the device, or host memory that the device reaches. Null for 0 bytes.
std::byte* allocate(std::int64_t bytes, MemorySpace space);
void release(std::byte* data, MemorySpace space) noexcept;
MemoryInfo memory_info();

/// Any direction; host memory that is not from `allocate` makes the host wait.
void copy(void* to, const void* from, std::int64_t bytes, const Stream& stream);
void copy_rows(const RowCopy& rows, const Stream& stream);
void set_bytes(void* to, int value, std::int64_t bytes, const Stream& stream);

/// Kernel and arguments without their types. An empty grid is not launched. A program without code
/// for the device: Error (usage).
void launch_kernel(const void* kernel, const LaunchShape& shape, void** arguments,
                   const Stream& stream);

/// Starts the kernel; the arguments are converted to its parameters and copied.
template <class... Parameters, class... Arguments>
void launch(const Stream& stream, const LaunchShape& shape, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
    std::tuple<std::remove_cv_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
    std::apply(
        [&](auto&... value) {
            std::array<void*, sizeof...(Parameters)> pointers = {&value...};
            launch_kernel(reinterpret_cast<const void*>(kernel), shape, pointers.data(), stream);
        },
        values);
}

}  // namespace gptrain::cuda
