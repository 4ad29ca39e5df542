// Runs a program with a terminal as its stdout, and copies what it writes there to stdout:
//   on_terminal PROGRAM [ARGUMENT...]
// The exit code is the program's, 128 + n after signal n, or 1 with a line on stderr if no terminal
// is available.
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

namespace {

/// Returns the result of a system call; exits if it failed.
int checked(int result, const char* call) {
    if (result >= 0) return result;
    std::perror(call);
    std::exit(1);
}

/// The program's end of a new pseudo-terminal, which passes bytes on unchanged.
int open_terminal(int controller) {
    checked(::grantpt(controller), "grantpt");
    checked(::unlockpt(controller), "unlockpt");
    const char* name = ::ptsname(controller);
    checked(name == nullptr ? -1 : 0, "ptsname");
    const int terminal = checked(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC), name);
    termios settings{};
    checked(::tcgetattr(terminal, &settings), "tcgetattr");
    ::cfmakeraw(&settings);
    checked(::tcsetattr(terminal, TCSANOW, &settings), "tcsetattr");
    return terminal;
}

void copy_to_stdout(int controller) {
    std::array<char, 4096> bytes;
    while (true) {
        const ssize_t count = ::read(controller, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return;  // EIO: the other end is closed
        const auto size = static_cast<std::size_t>(count);
        checked(std::fwrite(bytes.data(), 1, size, stdout) == size ? 0 : -1, "stdout");
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fputs("usage: on_terminal PROGRAM [ARGUMENT...]\n", stderr);
        return 1;
    }
    const int controller = checked(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), "posix_openpt");
    const int terminal = open_terminal(controller);
    const pid_t child = checked(::fork(), "fork");
    if (child == 0) {
        checked(::dup2(terminal, STDOUT_FILENO), "dup2");
        ::execvp(argv[1], argv + 1);
        std::perror(argv[1]);
        ::_exit(127);
    }
    ::close(terminal);
    copy_to_stdout(controller);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        checked(errno == EINTR ? 0 : -1, "waitpid");
    checked(std::fflush(stdout), "stdout");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
