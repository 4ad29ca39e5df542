// Lines that a user types or a program pipes in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gptrain {

/// True if stdin is a terminal.
bool stdin_is_terminal();

/// Reads standard input line by line, as soon as each line is there.
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
