// Work in a separate process, whose faults and hangs do not reach this one.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace gptrain {

struct ChildEnd {
    enum class Kind { exited, signalled, timed_out };
    Kind kind = Kind::exited;
    int number = 0;      ///< exit code or signal
    std::string output;  ///< what it wrote to stdout, at most 64 KiB of it

    /// "ended with exit code 3", "was ended by signal 11" or "did not end in time".
    std::string describe() const;
};

/// Runs a program with these arguments and waits for its end. After `limit` it is killed; a process
/// that still does not end, because it waits in a driver, is abandoned after a few seconds. It
/// reads nothing on stdin and shares our stderr. Error (io) if it cannot be started.
ChildEnd run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                   std::chrono::milliseconds limit);

}  // namespace gptrain
