// Checks of the device that run in a child process, because the code that they check may hang, or
// fail in a way that leaves a process unable to use the device.
#pragma once

#include <string>

namespace gptrain {

/// cuda::attention_fault of a device, or how the process that computed it ended.
std::string attention_fault_in_child(int device);

}  // namespace gptrain
