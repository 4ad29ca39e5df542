// Twin of cuda/runtime/peer_memory.cpp: the memory of emulated devices in different processes is
// shared memory of the machine.
#include "cuda/runtime/peer_memory.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/error.h"
#include "emulator/peer_hooks.h"
#include "emulator/shared_memory.h"

namespace gptrain {

std::string& emulator::fault_of_sharing() {
    static std::string fault;
    return fault;
}

namespace cuda {

using emulator::Shared;

std::string fault_of_peer_memory() {
    return emulator::fault_of_sharing();
}

PeerMemory::PeerMemory(std::int64_t bytes)
    : data_(emulator::map_shared(emulator::new_shared_name(), bytes, Shared::made)) {
    emulator::begin_device_memory(data_, bytes);
}
PeerMemory::~PeerMemory() {
    if (data_ == nullptr) return;
    emulator::end_device_memory(data_);
    emulator::remove_name(emulator::shared_name(data_));
    emulator::unmap_shared(data_);
}
std::string PeerMemory::handle() const {
    return emulator::shared_handle(data_);
}

OpenedMemory::OpenedMemory(const std::string& handle) : data_(emulator::map_handle(handle)) {
    emulator::begin_device_memory(data_, emulator::shared_bytes(data_));
}
OpenedMemory::~OpenedMemory() {
    if (data_ == nullptr) return;
    emulator::end_device_memory(data_);
    emulator::unmap_shared(data_);
}

PeerFlags::PeerFlags(std::string name, std::int64_t count, Role role)
    : name_(std::move(name)),
      bytes_(count * static_cast<std::int64_t>(sizeof(std::uint32_t))),
      flags_(reinterpret_cast<std::uint32_t*>(emulator::map_shared(
          name_, bytes_, role == Role::maker ? Shared::made : Shared::opened))) {}
PeerFlags::~PeerFlags() {
    emulator::unmap_shared(reinterpret_cast<std::byte*>(flags_));
}
void PeerFlags::unlink() const {
    emulator::remove_name(name_);
}

void PeerFlags::write(std::span<const Value> values, const Stream& stream) const {
    emulator::issue(stream, [this, all = std::vector(values.begin(), values.end())] {
        for (const Value& each : all)
            set(each.flag, each.value);
    });
}
void PeerFlags::wait(std::span<const Value> values, const Stream& stream) const {
    const auto is_there = [this](const Value& each) {
        return static_cast<std::int32_t>(value(each.flag) - each.value) >= 0;
    };
    emulator::issue_wait(stream, [is_there, all = std::vector(values.begin(), values.end())] {
        return std::ranges::all_of(all, is_there);
    });
}
void PeerFlags::set(std::int64_t flag, std::uint32_t value) const {
    std::atomic_ref(flags_[flag]).store(value, std::memory_order_release);
}
std::uint32_t PeerFlags::value(std::int64_t flag) const {
    return std::atomic_ref(flags_[flag]).load(std::memory_order_acquire);
}

}  // namespace cuda
}  // namespace gptrain
