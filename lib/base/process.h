// What a program prepares before all else, and how it ends by an exception.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "base/error.h"

namespace gptrain {

/// Prepares this process; `main` calls it first. Each of the descriptors 0 to 2 that is closed
/// becomes /dev/null: otherwise the next file opened would take its number and receive the lines
/// meant for people. SIGPIPE and SIGXFSZ are ignored, so that a closed pipe or a file size limit
/// is a failed write. An exception that nothing can catch (thrown in a thread of a library) ends
/// the process with its one line and exit code; `program` names the program in that line and must
/// live as long as the process. A few MiB of address space are kept back until the first allocation
/// fails (std::bad_alloc), so that there is room to clean up and to say so.
void start_process(std::string_view program);

/// What to say of an exception, in one line, and the exit code it leads to.
struct Failure {
    std::string message;
    ExitCode code;
};

/// An Error speaks for itself. Memory or threads that the system refuses: usage. A path that the
/// system does not let us look at: io. All else: bug.
Failure failure_of(const std::exception& error);

/// "out of memory", with the limit that the shell sets (ulimit) if there is one.
std::string out_of_memory();

/// " (ulimit -v allows this process 512 MiB; raise it)"; empty where memory has no limit.
std::string memory_limit();

/// Throws std::bad_alloc unless so many bytes can be allocated now. For calls into libraries that
/// crash, or say nothing useful, when an allocation of theirs fails.
void require_memory(std::int64_t bytes);

}  // namespace gptrain
