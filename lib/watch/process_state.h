// The state of processes, as the system reports it (/proc).
#pragma once

#include <cstdint>
#include <string>

namespace gptrain {

/// Text that reports whether a process of this machine is stopped, gone, or blocked on a disk or
/// device; empty if it seems fine.
std::string describe_process_state(std::int64_t pid);

/// Bytes that this process has read and written with system calls and through mapped files; 0 if
/// the system does not report them. A call counts once it is complete; what goes to a disk counts
/// twice.
std::int64_t bytes_read_and_written();

}  // namespace gptrain
