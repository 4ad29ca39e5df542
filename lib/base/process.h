// Process setup, and how a process ends on an exception.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "base/error.h"

namespace gptrain {

/// Prepares this process; `main` calls it first. Opens /dev/null on each closed descriptor from 0
/// to 2; otherwise the next file opened would get that number and receive lines meant for people.
/// Ignores SIGPIPE and SIGXFSZ, so that a closed pipe or a file size limit becomes a failed write.
/// An exception that nothing can catch (thrown in a library's thread) ends the process with its one
/// line and exit code; `program` is the name in that line and must live as long as the process.
/// Keeps a few MiB of address space in reserve until the first failed allocation (std::bad_alloc),
/// so that there is room to clean up and report it.
void start_process(std::string_view program);

/// An exception as one line, and the exit code it leads to.
struct Failure {
    std::string message;
    ExitCode code;
};

/// An Error keeps its message and code. Memory or threads refused by the system: usage. A path that
/// the system does not let us access: io. Everything else: bug.
Failure failure_of(const std::exception& error);

/// "out of memory", with the shell's limit (ulimit) if there is one.
std::string out_of_memory();

/// " (ulimit -v allows this process 512 MiB; raise it)"; empty if memory is unlimited.
std::string memory_limit();

/// Throws std::bad_alloc unless `bytes` bytes can be allocated now. For library calls that crash,
/// or report nothing useful, when an allocation fails.
void require_memory(std::int64_t bytes);

/// Seconds since the kernel started this process, to a hundredth.
double seconds_of_process();

/// This machine's name.
std::string host_name();

}  // namespace gptrain
