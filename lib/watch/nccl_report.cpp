#include "watch/nccl_report.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <netdb.h>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "base/temporary_file.h"
#include "base/text.h"

namespace gptrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view usual_address = "localhost:28028";
constexpr std::size_t max_bytes = std::size_t{4} << 20;

/// A connection, each of whose calls ends at the deadline.
class Connection {
public:
    Connection(const addrinfo& to, Clock::time_point deadline)
        : deadline_(deadline),
          socket_(::socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                           to.ai_protocol)) {
        if (socket_ < 0) return;
        const bool done = ::connect(socket_, to.ai_addr, to.ai_addrlen) == 0;
        if (!done && (errno != EINPROGRESS || !wait(POLLOUT))) return;
        int error = 0;
        socklen_t length = sizeof error;
        connected_ =
            ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() {
        if (socket_ >= 0) ::close(socket_);
    }

    bool connected() const { return connected_; }

    /// Commands are shorter than any socket's buffer.
    bool send(std::string_view command) {
        return wait(POLLOUT) &&
               std::cmp_equal(::send(socket_, command.data(), command.size(), MSG_NOSIGNAL),
                              command.size());
    }
    /// The bytes that have arrived; empty at the end of the connection, nothing at the deadline or
    /// after an error.
    std::optional<std::string_view> receive() {
        for (;;) {
            if (!wait(POLLIN)) return std::nullopt;
            const ssize_t bytes = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
            if (bytes >= 0)
                return std::string_view(buffer_.data(), static_cast<std::size_t>(bytes));
            if (errno != EINTR && errno != EAGAIN) return std::nullopt;
        }
    }

private:
    bool wait(short events) {
        for (;;) {
            const auto left =
                std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
            if (left <= 0) return false;
            pollfd waiting = {.fd = socket_, .events = events, .revents = 0};
            const int ready = ::poll(&waiting, 1, static_cast<int>(left));
            if (ready > 0) return true;
            if (ready < 0 && errno != EINTR) return false;
        }
    }

    Clock::time_point deadline_;
    int socket_;
    bool connected_ = false;
    std::array<char, 65536> buffer_;
};

/// Sends a command and returns the first line of what comes, with its end, and whatever follows.
std::string first_answer(Connection& nccl, std::string_view command) {
    std::string answer;
    if (!nccl.send(command)) return answer;
    while (answer.find('\n') == std::string::npos) {
        const auto part = nccl.receive();
        if (!part || part->empty()) break;
        answer += *part;
    }
    return answer;
}

std::string ask(Connection& nccl) {
    // One process answers for all, which it asks first, for at most so many seconds.
    if (first_answer(nccl, "TIMEOUT 1\n").empty()) return "";
    if (!nccl.send("VERBOSE STATUS\n")) return "";
    std::string report;
    while (report.size() <= max_bytes) {
        const auto part = nccl.receive();
        if (part && part->empty()) return report;
        if (!part) break;
        report += *part;
    }
    if (report.empty()) return report;
    report.resize(std::min(report.size(), max_bytes));
    return report + "\n(the rest did not arrive in time)\n";
}

}  // namespace

std::optional<std::string> nccl_report_address(bool cuda) {
    const char* enabled = std::getenv("NCCL_RAS_ENABLE");
    if (enabled != nullptr && std::string_view(enabled) == "0") return std::nullopt;
    if (const char* address = std::getenv("NCCL_RAS_ADDR")) return address;
    if (cuda) return std::string(usual_address);
    return std::nullopt;
}

std::string nccl_report(const std::string& address, std::chrono::milliseconds longest) {
    const Clock::time_point deadline = Clock::now() + longest;
    const std::size_t colon = address.rfind(':');
    if (colon == std::string::npos) return "";
    std::string host = address.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0)
        return "";
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
        Connection nccl(*each, deadline);
        if (nccl.connected()) return ask(nccl);
    }
    return "";
}

bool keep_nccl_report(const std::string& address, const std::filesystem::path& file,
                      std::chrono::milliseconds longest) {
    const std::string report = nccl_report(address, longest);
    if (report.empty()) return false;
    write_file_durably(file, report);
    return true;
}

}  // namespace gptrain
