// Reads many small files at once, of a file system that may be slow or may hang.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <vector>

namespace gptrain {

struct ReadLimits {
    std::chrono::milliseconds patience{1000};  ///< without a file that was read
    std::chrono::milliseconds all{60'000};     ///< for all files
};

/// The first `most` bytes of each file; none of a file that is missing or cannot be read, or that
/// was not read within the limits. Up to 8 threads read. One that hangs in a call to the system is
/// left behind.
std::vector<std::vector<std::byte>> read_files(const std::vector<std::filesystem::path>& paths,
                                               std::size_t most, const ReadLimits& limits);

}  // namespace gptrain
