// Reads files into memory that the system has left, while their reader does something else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <vector>

namespace gptrain {

/// Reads the files in their order, from a separate thread, and forgets what it reads: the system
/// keeps it in its page cache for whoever reads it next. What cannot be read is left to that one.
/// Ends soon after it is destroyed, or when `most_bytes` are read. Nobody waits for the thread: a
/// file system that does not answer would hold up an error.
class ReadAhead {
public:
    ReadAhead(std::vector<std::filesystem::path> files, std::int64_t most_bytes);
    ReadAhead(const ReadAhead&) = delete;
    ReadAhead& operator=(const ReadAhead&) = delete;
    ~ReadAhead() { stop_.request_stop(); }

private:
    std::stop_source stop_;
};

/// The shard files of a checkpoint that a rank would write on a mesh of `ranks` ranks. On the mesh
/// that saved it, they hold what this rank needs and others do not.
std::vector<std::filesystem::path> shard_files_of(const std::filesystem::path& checkpoint, int rank,
                                                  int ranks);

}  // namespace gptrain
