// NCCL's own view of a hang: the report of the thread that NCCL (2.24 and newer) runs in each
// process and that talks to those of all other processes ("RAS").
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace gptrain {

/// Where NCCL listens in this process's environment: NCCL_RAS_ADDR, else localhost:28028; nothing
/// with NCCL_RAS_ENABLE=0. Without `cuda` nobody would listen, so only NCCL_RAS_ADDR counts.
std::optional<std::string> nccl_report_address(bool cuda);

/// Asks at "HOST:PORT" or "[HOST]:PORT" for the state of all communicators and ranks ("verbose
/// status"). Empty if nobody answers within `longest`; an answer that is not complete by then, or
/// longer than 4 MiB, ends with a line that says so. NCCL gets a second of the time to ask its
/// other processes; it leaves out those that do not answer.
std::string nccl_report(const std::string& address, std::chrono::milliseconds longest);

/// Writes the answer to a file. False if there is none. Error (io): it cannot be written.
bool keep_nccl_report(const std::string& address, const std::filesystem::path& file,
                      std::chrono::milliseconds longest);

}  // namespace gptrain
