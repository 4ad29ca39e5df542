// The state of processes, as the system reports it (/proc).
#pragma once

#include <cstdint>
#include <string>

namespace gptrain {

/// Text that reports whether a process of this machine is stopped, gone, or blocked on a disk or
/// device; empty if it seems fine.
std::string describe_process_state(std::int64_t pid);

/// Milliseconds for which the first thread of this process has so far been ready to run without
/// having a core; 0 if the system does not report them.
std::int64_t ms_without_core();

/// True if the first thread of this process is blocked on a disk or device, as by a page fault.
bool is_blocked();

/// Bytes that this process has read and written with system calls and through mapped files; 0 if
/// the system does not report them. A call counts once it is complete; what goes to a disk counts
/// twice.
std::int64_t bytes_read_and_written();

}  // namespace gptrain
