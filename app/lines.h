// Input that a user types or a program pipes in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gptrain {

/// True if stdin is a terminal.
bool stdin_is_terminal();

/// All of a file, or of standard input if the path is "-"; a pipe is read to its end. More than
/// `limit` bytes, and a file that is missing or a folder, are Errors (bad_input).
std::string read_any_file(const std::string& path, std::int64_t limit);

/// Reads standard input line by line, each line as soon as it arrives.
class StdinLines {
public:
    /// The next line without its end; nothing at the end of the input. Error (bad_input): a line of
    /// more than 64 MiB; (io): the input cannot be read.
    std::optional<std::string> next();

private:
    std::string buffer_;
    bool ended_ = false;
};

}  // namespace gptrain
