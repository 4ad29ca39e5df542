// The files that this process has mapped, for a signal handler.
#pragma once

#include <span>
#include <string_view>

namespace gptrain {

/// The path of the file mapped at `address`, in `buffer` (which must hold a line of
/// /proc/self/maps); empty if there is none. Only system calls: safe in signal handlers.
std::string_view mapped_file_at(const void* address, std::span<char> buffer);

}  // namespace gptrain
