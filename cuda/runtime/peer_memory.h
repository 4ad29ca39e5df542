// Memory that processes of one machine share: device memory, and flags in host memory that streams
// write and wait for. The emulator has a twin of peer_memory.cpp.
//
// Assumed of the driver: a value that a stream writes is seen by the host and by other devices only
// after the results of all work before it in that stream (CU_STREAM_WRITE_VALUE_DEFAULT), and a
// stream that waits for a value sees them too. Up to 256 values go into one call
// (cuStreamBatchMemOp).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// Why this process cannot share the memory of its current device; empty if it can.
std::string fault_of_peer_memory();

/// Device memory that other processes can open.
class PeerMemory {
public:
    explicit PeerMemory(std::int64_t bytes);
    PeerMemory(PeerMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
    PeerMemory& operator=(PeerMemory&&) = delete;
    ~PeerMemory();

    std::byte* data() const { return data_; }
    /// For OpenedMemory in another process.
    std::string handle() const;

private:
    std::byte* data_ = nullptr;
};

/// The memory of another process, which must outlive this. Throws Error (usage) where the devices
/// cannot access each other.
class OpenedMemory {
public:
    explicit OpenedMemory(const std::string& handle);
    OpenedMemory(OpenedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
    OpenedMemory& operator=(OpenedMemory&&) = delete;
    ~OpenedMemory();

    std::byte* data() const { return data_; }

private:
    std::byte* data_ = nullptr;
};

/// Flags that all processes see which open the same name; each is 0 at first. A flag counts up and
/// may wrap: to wait for n is to wait until the flag is at most 2^31 behind n.
class PeerFlags {
public:
    /// One process makes them, the others open them after that. The name exists until `unlink`.
    enum class Role { maker, opener };
    PeerFlags(std::string name, std::int64_t count, Role role);
    PeerFlags(const PeerFlags&) = delete;
    PeerFlags& operator=(const PeerFlags&) = delete;
    ~PeerFlags();
    /// Once all have opened them: nothing is left behind however the processes end.
    void unlink() const;

    struct Value {
        std::int64_t flag = 0;
        std::uint32_t value = 0;
    };
    /// Sets the flags once all work issued to the stream before is done. One call to the driver.
    void write(std::span<const Value> values, const Stream& stream) const;
    /// Later work of the stream waits for all values. No multiprocessor is held. One call.
    void wait(std::span<const Value> values, const Stream& stream) const;
    /// By the host, at once.
    void set(std::int64_t flag, std::uint32_t value) const;
    std::uint32_t value(std::int64_t flag) const;

private:
    /// Maps the file, which it closes, and registers it with the device.
    void map(int file, bool makes);

    std::string name_;
    std::int64_t bytes_ = 0;
    std::uint32_t* flags_ = nullptr;
    std::uint64_t device_address_ = 0;  ///< of the flags, for the driver
};

}  // namespace gptrain::cuda
