// The CUDA runtime for host code: streams, events, memory, launches. Failures throw an Error that
// names the call; exit_code_of (call.h) has its code. The emulator has a twin of this file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "backend/buffer.h"
#include "cuda/runtime/types.h"

namespace gptrain::cuda {

/// Makes the device current for this thread. Throws Error (usage) if it is not usable (probe.h).
DeviceProperties open_device(int index);
/// The number of devices visible to this process; 0 without a driver or if the driver is too old.
int visible_device_count();

class Event;

/// An ordered queue of device work.
class Stream {
public:
    /// Waiting blocks of urgent streams start before those of others.
    enum class Priority { normal, urgent };
    explicit Stream(Priority priority = Priority::normal);
    ~Stream();
    Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Stream& operator=(Stream&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }

    /// Blocks the host until all issued work is done.
    void synchronize() const;
    /// Later work on this stream runs after the event.
    void wait(const Event& event) const;
    /// The runtime's own handle.
    CUstream_st* handle() const { return handle_; }

private:
    CUstream_st* handle_ = nullptr;
};

/// A point in a stream.
class Event {
public:
    /// Events that only order work cost less.
    enum class Purpose { order, time };
    explicit Event(Purpose purpose = Purpose::order);
    ~Event();
    Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Event& operator=(Event&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }

    void record(const Stream& stream) const;
    void synchronize() const;
    bool done() const;
    /// Device time in milliseconds between two completed events, which were created to measure
    /// time.
    double milliseconds_since(const Event& start) const;
    CUevent_st* handle() const { return handle_; }

private:
    CUevent_st* handle_ = nullptr;
};

/// Device memory, or pinned host memory that the device can access. Null for 0 bytes.
std::byte* allocate(std::int64_t bytes, MemorySpace space);
void release(std::byte* data, MemorySpace space) noexcept;
MemoryInfo memory_info();

/// Copies in any direction. The host blocks if host memory is not from `allocate`.
void copy(void* to, const void* from, std::int64_t bytes, const Stream& stream);
void copy_rows(const RowCopy& rows, const Stream& stream);
void set_bytes(void* to, int value, std::int64_t bytes, const Stream& stream);

/// Launches a type-erased kernel. Does nothing for an empty grid. Throws Error (usage) if the
/// program has no code for the device.
void launch_kernel(const void* kernel, const LaunchShape& shape, void** arguments,
                   const Stream& stream);

/// Launches the kernel; arguments are converted to its parameter types and copied.
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
