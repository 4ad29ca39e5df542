#include "base/child.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "base/error.h"

namespace gptrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_output = std::size_t{64} << 10;
constexpr std::chrono::milliseconds pause_for_end(5);
/// For a killed process to end.
constexpr std::chrono::seconds patience(5);

class Descriptor {
public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { close(); }
    int number() const { return number_; }
    void close() {
        if (number_ >= 0) ::close(number_);
        number_ = -1;
    }

private:
    int number_;
};

/// The changes to the descriptors of the child before it begins.
class SpawnActions {
public:
    explicit SpawnActions(int output) {
        check(::posix_spawn_file_actions_init(&actions_));
        check(
            ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0));
        check(::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO));
    }
    SpawnActions(const SpawnActions&) = delete;
    SpawnActions& operator=(const SpawnActions&) = delete;
    ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
    const posix_spawn_file_actions_t* get() const { return &actions_; }

private:
    static void check(int error) {
        if (error != 0) fail_errno(error, "cannot prepare a process");
    }
    posix_spawn_file_actions_t actions_;
};

pid_t spawn(const std::filesystem::path& program, const std::vector<std::string>& arguments,
            int output) {
    std::vector<std::string> words = {program.string()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words)
        pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const SpawnActions actions(output);
    pid_t child = 0;
    const int error =
        ::posix_spawn(&child, program.c_str(), actions.get(), nullptr, pointers.data(), environ);
    if (error != 0) fail_errno(error, program.string(), ": cannot be started");
    return child;
}

/// Reads until the writers have closed their end, or the deadline.
std::string read_until(int descriptor, Clock::time_point deadline) {
    std::string output;
    std::array<char, 4096> buffer{};
    for (;;) {
        const auto rest =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
        if (rest.count() <= 0) return output;
        pollfd waiting = {.fd = descriptor, .events = POLLIN, .revents = 0};
        const int ready = ::poll(&waiting, 1, static_cast<int>(rest.count()));
        if (ready < 0 && errno != EINTR) fail_errno(errno, "waiting for a process");
        if (ready <= 0) continue;
        const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
        if (count == 0) return output;
        if (count < 0 && errno != EINTR) fail_errno(errno, "reading from a process");
        if (count < 0) continue;
        output.append(buffer.data(), static_cast<std::size_t>(count));
        output.resize(std::min(output.size(), most_output));
    }
}

/// True once the child has ended, which `status` then describes.
bool has_ended(pid_t child, int& status) {
    for (;;) {
        const pid_t ended = ::waitpid(child, &status, WNOHANG);
        if (ended >= 0) return ended == child;
        if (errno != EINTR) fail_errno(errno, "waiting for a process");
    }
}

/// False if the child has not ended at the deadline.
bool ends_until(pid_t child, Clock::time_point deadline, int& status) {
    while (!has_ended(child, status)) {
        if (Clock::now() >= deadline) return false;
        std::this_thread::sleep_for(pause_for_end);
    }
    return true;
}

}  // namespace

std::string ChildEnd::describe() const {
    switch (kind) {
        case Kind::exited: return text("ended with exit code ", number);
        case Kind::signalled: return text("was ended by signal ", number);
        case Kind::timed_out: return "did not end in time";
    }
    return "";
}

ChildEnd run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                   std::chrono::milliseconds limit) {
    const Clock::time_point deadline = Clock::now() + limit;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno(errno, "cannot make a pipe");
    const Descriptor from(ends[0]);
    Descriptor to(ends[1]);
    const pid_t child = spawn(program, arguments, to.number());
    to.close();
    ChildEnd end;
    end.output = read_until(from.number(), deadline);
    int status = 0;
    if (!ends_until(child, deadline, status)) {
        ::kill(child, SIGKILL);
        ends_until(child, Clock::now() + patience, status);
        end.kind = ChildEnd::Kind::timed_out;
        return end;
    }
    end.kind = WIFSIGNALED(status) ? ChildEnd::Kind::signalled : ChildEnd::Kind::exited;
    end.number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    return end;
}

}  // namespace gptrain
