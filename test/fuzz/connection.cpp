// All that a client sends to gptrain serve over one connection: heads, bodies, and what is neither.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/target.h"
#include "serve/access.h"
#include "serve/http_server.h"

using namespace gptrain;

namespace {

/// Answers each request with its body.
void echo(HttpRequest request, const std::shared_ptr<HttpAnswer>& client) {
    GPTRAIN_CHECK(!refusal_of(request, {.loopback = true, .token = ""}));
    client->send({.type = "text/plain", .body = std::move(request.body)});
}

HttpServer& server() {
    static HttpServer it("127.0.0.1", 0,
                         {.connections = 64, .head_bytes = 8192, .body_bytes = 4096},
                         {.refuse =
                              [](const HttpRequest& request) {
                                  return refusal_of(request, {.loopback = true, .token = ""});
                              },
                          .answer = echo});
    return it;
}

/// A connection to the server.
class Connection {
public:
    Connection() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        // Ports stay taken for a minute after a connection, so clients have many addresses.
        static std::uint32_t client = 0;
        const sockaddr_in own = loopback(client++ % 65'000, 0);
        GPTRAIN_CHECK(bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) == 0);
        const sockaddr_in address = loopback(0, server().port());
        GPTRAIN_CHECK(
            connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() { close(socket_); }
    int socket() const { return socket_; }

private:
    /// The address 127.0.0.1 + number.
    static sockaddr_in loopback(std::uint32_t number, int port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + number);
        return address;
    }

    int socket_;
};

/// Sends everything, as far as the server reads it, and returns its replies.
std::string replies_to(std::string_view bytes) {
    const Connection client;
    while (!bytes.empty()) {
        const ssize_t sent = send(client.socket(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) break;
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    shutdown(client.socket(), SHUT_WR);
    std::string replies;
    char buffer[4096];
    while (true) {
        pollfd readable{.fd = client.socket(), .events = POLLIN, .revents = 0};
        GPTRAIN_CHECK(poll(&readable, 1, 10'000) == 1, "the server neither answers nor closes");
        const ssize_t received = recv(client.socket(), buffer, sizeof(buffer), 0);
        if (received <= 0) return replies;  // 0: closed; else reset, with bytes unread
        replies.append(buffer, static_cast<std::size_t>(received));
    }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const std::string replies = replies_to(test::as_text(bytes, size));
    GPTRAIN_CHECK(replies.empty() || replies.starts_with("HTTP/1."), replies.substr(0, 80));
    // The next client is served all the same.
    const std::string health =
        replies_to("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    GPTRAIN_CHECK(health.starts_with("HTTP/1.1 200 "), health.substr(0, 80));
    return 0;
}
