#include "serve/listening_socket.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "base/error.h"

namespace gptrain {
namespace {

/// Resolves a numeric address.
struct Address {
    sockaddr_storage storage{};
    socklen_t length = 0;
};

std::optional<Address> parse_address(const std::string& text, int port) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(text.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
    Address address;
    std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
    address.length = found->ai_addrlen;
    freeaddrinfo(found);
    return address;
}

}  // namespace

bool is_address(const std::string& text) {
    return parse_address(text, 0).has_value();
}

bool is_loopback(const std::string& text) {
    const auto address = parse_address(text, 0);
    if (!address) return false;
    if (address->storage.ss_family == AF_INET6) {
        const auto& six = reinterpret_cast<const sockaddr_in6&>(address->storage);
        return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
    }
    const auto& four = reinterpret_cast<const sockaddr_in&>(address->storage);
    return ntohl(four.sin_addr.s_addr) >> 24 == 127;
}

ListeningSocket::ListeningSocket(const std::string& text, int port) {
    const auto address = parse_address(text, port);
    if (!address) {
        fail(ExitCode::usage, "--host ", text,
             ": is not a numeric address; use 127.0.0.1, ::1 or the address of a network card");
    }
    number_ = ::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    const auto* at = reinterpret_cast<const sockaddr*>(&address->storage);
    if (number_ < 0 || setsockopt(number_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        ::bind(number_, at, address->length) != 0 || ::listen(number_, SOMAXCONN) != 0) {
        const int code = errno;
        close();
        fail(ExitCode::usage, "cannot listen at ", text, " port ", port, ": ", std::strerror(code),
             "; choose another --port, or 0 for any free one");
    }
}

ListeningSocket::~ListeningSocket() {
    close();
}

int ListeningSocket::port() const {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getsockname(number_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
        fail_errno(errno, "cannot read the port of a socket");
    return ntohs(address.ss_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                     : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

int ListeningSocket::release() {
    return std::exchange(number_, -1);
}

void ListeningSocket::close() {
    if (number_ >= 0) ::close(release());
}

}  // namespace gptrain
