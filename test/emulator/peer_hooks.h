// How the twin of cuda/runtime/peer_memory.cpp reaches the emulator, or another stand-in for the
// CUDA runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace gptrain::cuda {
class Stream;
}

namespace gptrain::emulator {

/// Why this process cannot share device memory, if a test says so.
std::string& fault_of_sharing();
/// Memory at `data` is device memory from now on, and is no longer.
void begin_device_memory(std::byte* data, std::int64_t bytes);
void end_device_memory(std::byte* data);
/// After all work issued to the stream before.
void issue(const cuda::Stream& stream, std::function<void()> work);
/// Later work of the stream waits until another process has made it ready.
void issue_wait(const cuda::Stream& stream, std::function<bool()> ready);

}  // namespace gptrain::emulator
