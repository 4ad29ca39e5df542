#include "cuda/runtime/runtime.h"

#include <cstring>

#include "emulator/memory.h"

namespace gptrain::cuda {

DeviceProperties open_device(int /*index*/) {
    const emulator::Settings& device = emulator::settings();
    return {.index = 0,
            .name = device.name,
            .uuid = "emulated",
            .major = device.major,
            .minor = device.minor,
            .multiprocessors = 3,
            .shared_bytes = device.shared_bytes,
            .multiprocessor_bytes = device.shared_bytes + 1024,
            .l2_bytes = std::int64_t{1} << 20,
            .memory_bytes = std::int64_t{1} << 34};
}

int visible_device_count() {
    return 1;
}

std::byte* allocate(std::int64_t bytes, MemorySpace /*space*/) {
    return bytes == 0 ? nullptr : emulator::allocate(bytes);
}

void release(std::byte* data, MemorySpace /*space*/) noexcept {
    // Waits for the device, as the real one does. A fault cannot be reported here.
    try {
        emulator::run_all();
    } catch (const std::exception&) {
    }
    emulator::release(data);
}

MemoryInfo memory_info() {
    return {std::int64_t{1} << 34, std::int64_t{1} << 34};
}

void copy(void* to, const void* from, std::int64_t bytes, const Stream& stream) {
    if (bytes == 0) return;
    stream.issue([=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
    if (!emulator::is_allocated(to, bytes) || !emulator::is_allocated(from, bytes))
        stream.synchronize();
}

void copy_rows(const RowCopy& rows, const Stream& stream) {
    for (std::int64_t i = 0; i < rows.rows; ++i) {
        copy(static_cast<std::byte*>(rows.to) + i * rows.to_stride,
             static_cast<const std::byte*>(rows.from) + i * rows.from_stride, rows.row_bytes,
             stream);
    }
}

void set_bytes(void* to, int value, std::int64_t bytes, const Stream& stream) {
    if (bytes == 0) return;
    stream.issue([=] { std::memset(to, value, static_cast<std::size_t>(bytes)); });
}

}  // namespace gptrain::cuda
