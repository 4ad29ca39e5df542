// Runs a program with a terminal as its stdout, and copies what it writes there to stdout:
//   on_terminal [--talk] PROGRAM [ARGUMENT...]
// With --talk the terminal is the program's stdin too, and gets what stands in stdin: lines, Ctrl-C
// as the byte 3 and Ctrl-D as the byte 4 act as if they were typed.
// The exit code is the program's, 128 + n after signal n, or 1 with a line on stderr if no terminal
// is available.
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string_view>
#include <sys/ioctl.h>
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

/// The program's end of a new pseudo-terminal, which passes output on unchanged; input too, unless
/// it is typed.
int open_terminal(int controller, bool typed) {
    checked(::grantpt(controller), "grantpt");
    checked(::unlockpt(controller), "unlockpt");
    const char* name = ::ptsname(controller);
    checked(name == nullptr ? -1 : 0, "ptsname");
    const int terminal = checked(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC), name);
    termios settings{};
    checked(::tcgetattr(terminal, &settings), "tcgetattr");
    ::cfmakeraw(&settings);
    if (typed) settings.c_lflag |= ICANON | ISIG;
    checked(::tcsetattr(terminal, TCSANOW, &settings), "tcsetattr");
    return terminal;
}

/// Types the contents of stdin, from a child process.
pid_t type_stdin(int controller) {
    const pid_t typist = checked(::fork(), "fork");
    if (typist != 0) return typist;
    std::array<char, 4096> bytes;
    while (true) {
        const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
        if (count <= 0) ::_exit(count == 0 ? 0 : 1);
        if (::write(controller, bytes.data(), static_cast<std::size_t>(count)) != count) ::_exit(1);
    }
}

/// Makes the terminal this process's own, so that Ctrl-C reaches it.
void take_terminal(int terminal) {
    checked(::setsid(), "setsid");
    checked(::ioctl(terminal, TIOCSCTTY, 0), "TIOCSCTTY");
    checked(::dup2(terminal, STDIN_FILENO), "dup2");
}

void copy_to_stdout(int controller) {
    std::array<char, 4096> bytes;
    while (true) {
        const ssize_t count = ::read(controller, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return;  // EIO: the other end is closed
        const auto size = static_cast<std::size_t>(count);
        checked(std::fwrite(bytes.data(), 1, size, stdout) == size ? 0 : -1, "stdout");
        checked(std::fflush(stdout), "stdout");
    }
}

}  // namespace

int main(int argc, char** argv) {
    const bool talk = argc > 1 && std::string_view(argv[1]) == "--talk";
    char** const command = argv + (talk ? 2 : 1);
    if (*command == nullptr) {
        std::fputs("usage: on_terminal [--talk] PROGRAM [ARGUMENT...]\n", stderr);
        return 1;
    }
    const int controller = checked(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), "posix_openpt");
    const int terminal = open_terminal(controller, talk);
    const pid_t typist = talk ? type_stdin(controller) : 0;
    const pid_t child = checked(::fork(), "fork");
    if (child == 0) {
        if (talk) take_terminal(terminal);
        checked(::dup2(terminal, STDOUT_FILENO), "dup2");
        ::execvp(command[0], command);
        std::perror(command[0]);
        ::_exit(127);
    }
    ::close(terminal);
    copy_to_stdout(controller);
    if (typist > 0) ::kill(typist, SIGTERM);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        checked(errno == EINTR ? 0 : -1, "waitpid");
    checked(std::fflush(stdout), "stdout");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
