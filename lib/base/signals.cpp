#include "base/signals.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>
#include <unistd.h>
#include <utility>

#include "base/log.h"
#include "base/mappings.h"
#include "base/temporary_names.h"

namespace gptrain {
namespace {

constexpr std::array<std::pair<int, std::string_view>, 4> handled = {
    {{SIGHUP, "SIGHUP"}, {SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}}};

// All that a handler can reach. Written only while `holders` keeps the handler out.
SignalEnd signal_end;

constexpr int ending = -1;
/// Number of DeferSignals objects, or `ending`.
std::atomic<int> holders{0};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

void sleep_briefly() {
    const timespec millisecond = {.tv_sec = 0, .tv_nsec = 1'000'000};
    ::nanosleep(&millisecond, nullptr);
}

/// Waits until no thread holds signals back, which is never long, and keeps new holders out.
void wait_for_holders() {
    for (int none = 0; !holders.compare_exchange_weak(none, ending); none = 0)
        sleep_briefly();
}

/// Dies as if there were no handler.
void die_by(int signal) {
    std::signal(signal, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
    std::raise(signal);
    ::_exit(128 + signal);
}

extern "C" void end_by_signal(int signal) {
    wait_for_holders();
    remove_temporary_files();
    if (!stdout_silenced())
        write_from_handler(signal_end.before, signal_name(signal), signal_end.after);
    if (signal_end.code) ::_exit(static_cast<int>(*signal_end.code));
    die_by(signal);
}

// The beginning of the line that end_on_lost_mapping prints.
std::string_view before_lost_mapping;

extern "C" void end_by_lost_mapping(int signal, siginfo_t* info, void* /*context*/) {
    if (info->si_code != BUS_ADRERR) die_by(signal);
    wait_for_holders();
    remove_temporary_files();
    static std::array<char, 4500> buffer;
    const std::string_view file = mapped_file_at(info->si_addr, buffer);
    write_from_handler(before_lost_mapping, file.empty() ? "a memory-mapped file" : file,
                       ": cannot be read where it is mapped: it was truncated, or its disk failed; "
                       "restore it and start again");
    ::_exit(static_cast<int>(ExitCode::io));
}

/// Gives this thread a stack for handlers unless it has one, as under the address sanitizer.
void use_signal_stack() {
    static std::array<std::byte, std::size_t{256} << 10> memory;
    stack_t stack{};
    if (::sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_DISABLE) == 0) return;
    stack = {.ss_sp = memory.data(), .ss_flags = 0, .ss_size = memory.size()};
    if (::sigaltstack(&stack, nullptr) != 0) fail_errno(errno, "sigaltstack");
}

sigset_t all_handled() {
    sigset_t set;
    sigemptyset(&set);
    for (const auto& [signal, name] : handled)
        sigaddset(&set, signal);
    return set;
}

// The state of the only CatchInterrupt, here because a handler cannot reach the object.
std::atomic<bool> interrupted{false};
struct sigaction interrupt_before {};

extern "C" void record_interrupt(int signal) {
    interrupted = true;
    ::sigaction(signal, &interrupt_before, nullptr);
}

}  // namespace

void handle_signal(int signal, struct sigaction action, struct sigaction* previous) {
    static std::once_flag once;
    std::call_once(once, use_signal_stack);
    action.sa_flags |= SA_ONSTACK;
    if (::sigaction(signal, &action, previous) != 0)
        fail_errno(errno, "sigaction ", signal_name(signal));
}

void end_on_lost_mapping(std::string_view before) {
    before_lost_mapping = before;
    struct sigaction action {};
    action.sa_sigaction = end_by_lost_mapping;
    action.sa_flags = SA_SIGINFO;
    action.sa_mask = all_handled();
    handle_signal(SIGBUS, action);
}

bool is_ignored(int signal) {
    struct sigaction action {};
    return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void end_on_signals(std::span<const int> signals, const SignalEnd& end) {
    const DeferSignals held;
    signal_end = end;
    for (const int signal : signals) {
        struct sigaction action {};
        action.sa_handler = end_by_signal;
        action.sa_mask = all_handled();
        handle_signal(signal, action);
    }
}

void end_on_signals(const SignalEnd& end) {
    for (const auto& [signal, name] : handled) {
        if (!is_ignored(signal)) end_on_signals({&signal, 1}, end);
    }
}

std::string_view signal_name(int signal) {
    for (const auto& [number, name] : handled) {
        if (number == signal) return name;
    }
    return {};
}

void write_from_handler(std::string_view before, std::string_view name, std::string_view after) {
    std::array<char, 512> line;
    std::size_t length = 0;
    for (const std::string_view part : {before, name, after, std::string_view("\n")}) {
        const std::size_t count = std::min(part.size(), line.size() - length);
        std::memcpy(line.data() + length, part.data(), count);
        length += count;
    }
    // A stderr that takes nothing must not delay the exit.
    static_cast<void>(!::write(STDERR_FILENO, line.data(), length));
}

CatchInterrupt::CatchInterrupt() {
    interrupted = false;
    if (::sigaction(SIGINT, nullptr, &before_) != 0) fail_errno(errno, "sigaction SIGINT");
    interrupt_before = before_;
    struct sigaction action {};
    action.sa_handler = record_interrupt;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    handle_signal(SIGINT, action);
}

CatchInterrupt::~CatchInterrupt() {
    ::sigaction(SIGINT, &before_, nullptr);
}

bool CatchInterrupt::caught() const {
    return interrupted;
}

DeferSignals::DeferSignals() {
    const sigset_t all = all_handled();
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
    int now = holders;
    while (now == ending || !holders.compare_exchange_weak(now, now + 1)) {
        if (now != ending) continue;
        sleep_briefly();
        now = holders;
    }
}

DeferSignals::~DeferSignals() {
    --holders;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace gptrain
