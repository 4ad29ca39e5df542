// Memory that the processes of a test share, as emulated devices of one machine do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gptrain::emulator {

enum class Shared { made, opened };
/// Maps the shared memory of this name. It is freed when its name is removed and all have unmapped
/// it.
std::byte* map_shared(const std::string& name, std::int64_t bytes, Shared how);
void unmap_shared(std::byte* data);
void remove_name(const std::string& name);

/// A name that no other memory has, and what another process needs to map it.
std::string new_shared_name();
std::string shared_handle(const std::byte* data);
std::byte* map_handle(const std::string& handle);
/// Of mapped memory.
const std::string& shared_name(const std::byte* data);
std::int64_t shared_bytes(const std::byte* data);

}  // namespace gptrain::emulator
