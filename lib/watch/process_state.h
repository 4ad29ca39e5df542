// What the system knows of processes (/proc).
#pragma once

#include <cstdint>
#include <string>

namespace gptrain {

/// Whether a process of this machine is stopped, gone, or waits for a disk or a device, in words;
/// empty where it seems in order.
std::string process_sign(std::int64_t pid);

/// Bytes that this process has read and written with system calls; 0 where the system does not
/// tell. A call counts when it is done.
std::int64_t bytes_read_and_written();

}  // namespace gptrain
