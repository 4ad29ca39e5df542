#include "base/process.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <sstream>
#include <sys/mman.h>
#include <sys/resource.h>
#include <system_error>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/temporary_names.h"
#include "base/text.h"

namespace gptrain {
namespace {

constexpr std::size_t reserve_bytes = std::size_t{4} << 20;

std::string_view program_name;
/// The error line if there is no memory to make one.
std::string last_line;
std::atomic<void*> reserve = nullptr;

/// Returns null if there is no memory.
void* map(std::size_t bytes) {
    void* pages =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? nullptr : pages;
}

[[noreturn]] void release_reserve() {
    if (void* pages = reserve.exchange(nullptr)) ::munmap(pages, reserve_bytes);
    throw std::bad_alloc();
}

void open_standard_descriptors() {
    // open returns the lowest free number: in this order, the missing one.
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
        const int mode = descriptor == STDIN_FILENO ? O_RDONLY : O_WRONLY;
        if (::open("/dev/null", mode) != descriptor)
            fail_errno(errno, "/dev/null: cannot stand in for a closed standard stream");
    }
}

/// The failure that ends the process: the uncaught exception, if there is one.
Failure uncaught_failure() {
    const std::exception_ptr error = std::current_exception();
    try {
        if (error) std::rethrow_exception(error);
    } catch (const std::exception& known) {
        return failure_of(known);
    } catch (...) {
    }
    return {"internal error: terminated", ExitCode::bug};
}

[[noreturn]] void end_by_exception() {
    int code = static_cast<int>(ExitCode::bug);
    try {
        const Failure failure = uncaught_failure();
        code = static_cast<int>(failure.code);
        error_line(program_name, failure.message);
    } catch (...) {
        code = static_cast<int>(ExitCode::usage);
        if (::write(STDERR_FILENO, last_line.data(), last_line.size()) < 0) std::_Exit(code);
    }
    remove_unless_in_use();
    std::_Exit(code);
}

}  // namespace

void start_process(std::string_view program) {
    program_name = program;
    last_line = text(program, ": error: out of memory\n");
    std::set_terminate(end_by_exception);
    reserve = map(reserve_bytes);
    std::set_new_handler(release_reserve);
    open_standard_descriptors();
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
}

std::string out_of_memory() {
    return "out of memory" + memory_limit();
}

std::string memory_limit() {
    struct Limit {
        __rlimit_resource_t resource;
        std::string_view name;
    };
    for (const Limit& limit : {Limit{RLIMIT_AS, "ulimit -v"}, Limit{RLIMIT_DATA, "ulimit -d"}}) {
        struct rlimit value {};
        if (::getrlimit(limit.resource, &value) != 0 || value.rlim_cur == RLIM_INFINITY) continue;
        return text(" (", limit.name, " allows this process ",
                    human_bytes(static_cast<std::int64_t>(value.rlim_cur)), "; raise it)");
    }
    return "";
}

void require_memory(std::int64_t bytes) {
    const auto size = static_cast<std::size_t>(bytes);
    void* pages = map(size);
    if (pages == nullptr) release_reserve();
    ::munmap(pages, size);
}

Failure failure_of(const std::exception& error) {
    if (const auto* own = dynamic_cast<const Error*>(&error)) return {own->what(), own->code()};
    if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
        return {out_of_memory(), ExitCode::usage};
    if (const auto* files = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
        return {text(files->path1().string(), ": ", files->code().message()), ExitCode::io};
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
        return {text("the system refuses to start more threads for this process", memory_limit(),
                     "; ulimit -u limits them as well"),
                ExitCode::usage};
    }
    return {text("internal error: ", error.what()), ExitCode::bug};
}

double seconds_of_process() {
    // Numbers behind the name, which may hold blanks and parentheses.
    std::ifstream file("/proc/self/stat");
    std::string stat;
    std::getline(file, stat);
    std::istringstream fields(stat.substr(stat.rfind(')') + 1));
    std::string field;
    constexpr int start_time = 20;  // of these
    for (int i = 0; i < start_time; ++i)
        fields >> field;
    const std::optional<std::int64_t> ticks = parse_int(field);
    const long per_second = ::sysconf(_SC_CLK_TCK);
    timespec now{};
    if (!ticks || per_second <= 0 || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
    const double seconds = static_cast<double>(now.tv_sec) +
                           1e-9 * static_cast<double>(now.tv_nsec) -
                           static_cast<double>(*ticks) / static_cast<double>(per_second);
    return std::max(seconds, 0.0);
}

std::string host_name() {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) fail_errno(errno, "gethostname");
    return name.data();
}

}  // namespace gptrain
