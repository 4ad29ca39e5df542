#include "lines.h"

#include <array>
#include <cerrno>
#include <unistd.h>

#include "base/error.h"

namespace gptrain {
namespace {

constexpr std::size_t max_line_bytes = std::size_t{64} << 20;

}  // namespace

bool stdin_is_terminal() {
    return ::isatty(STDIN_FILENO) == 1;
}

std::optional<std::string> StdinLines::next() {
    std::size_t searched = 0;
    while (true) {
        const std::size_t end = buffer_.find('\n', searched);
        if (end != buffer_.npos || (ended_ && !buffer_.empty())) {
            std::string line = buffer_.substr(0, end);
            buffer_.erase(0, end == buffer_.npos ? end : end + 1);
            if (line.ends_with('\r')) line.pop_back();
            return line;
        }
        if (ended_) return std::nullopt;
        searched = buffer_.size();
        if (searched > max_line_bytes)
            fail(ExitCode::bad_input, "stdin: a line of more than ", max_line_bytes, " bytes");
        std::array<char, 4096> bytes;
        const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail_errno(errno, "stdin");
        ended_ = count == 0;
        buffer_.append(bytes.data(), static_cast<std::size_t>(count));
    }
}

}  // namespace gptrain
