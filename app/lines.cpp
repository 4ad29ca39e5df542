#include "lines.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace gptrain {
namespace {

constexpr std::size_t max_line_bytes = std::size_t{64} << 20;

}  // namespace

bool stdin_is_terminal() {
    return ::isatty(STDIN_FILENO) == 1;
}

std::string read_any_file(const std::string& path, std::int64_t limit) {
    using Type = std::filesystem::file_type;
    const bool is_stdin = path == "-";
    const Type type = is_stdin ? Type::unknown : require_path(path, ExitCode::bad_input, "file");
    if (type == Type::regular || type == Type::directory) return read_file(path, limit);
    File file(is_stdin ? "/dev/stdin" : path, File::Mode::read);
    std::string contents;
    std::array<std::byte, 65536> block;
    while (const std::size_t count = file.read(block)) {
        contents.append(reinterpret_cast<const char*>(block.data()), count);
        if (std::ssize(contents) > limit) {
            fail(ExitCode::bad_input, is_stdin ? "stdin" : path, ": exceeds the limit of ",
                 human_bytes(limit));
        }
    }
    return contents;
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
