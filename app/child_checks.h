// Checks of the device that run in a child process, because the code that they check may hang, or
// fail in a way that leaves a process unable to use the device.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gptrain {

/// The CRC-32C of this program's file.
std::uint32_t program_checksum();

struct AttentionCheck {
    std::string fault;       ///< empty if the kernels are right
    bool timed_out = false;  ///< nothing is known about them
};

/// cuda::attention_fault of a device, or how the process that computed it ended.
AttentionCheck check_attention_in_child(int device, std::chrono::seconds limit);

}  // namespace gptrain
