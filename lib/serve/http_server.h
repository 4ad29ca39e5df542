// An HTTP/1.1 server in a separate thread (libmicrohttpd), for requests whose answers are slow:
// another thread answers them whenever it can. No request can hold more than the limits allow.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/http.h"

namespace gptrain {

struct HttpLimits {
    std::int64_t connections = 64;         ///< at a time; more wait to be accepted
    std::int64_t head_bytes = 32 << 10;    ///< request line and headers
    std::int64_t body_bytes = 4 << 20;     ///< of a request
    std::int64_t unread_bytes = 16 << 20;  ///< of a stream; with more its client is cut off
    std::int64_t read_seconds = 30;        ///< to send a request, or to be idle
};

/// Called on the server's thread; must not block.
struct HttpHandlers {
    /// Called with a request before its body is read; a reply means that the body is not worth
    /// reading.
    std::function<std::optional<HttpReply>(const HttpRequest&)> refuse;
    /// Called with a complete request.
    std::function<void(HttpRequest, const std::shared_ptr<HttpAnswer>&)> answer;
};

class HttpServer {
public:
    /// Listens at a numeric address; port 0 is any free one. Error (usage) if it cannot.
    HttpServer(const std::string& address, int port, const HttpLimits& limits,
               HttpHandlers handlers);
    /// Closes all connections.
    ~HttpServer();

    int port() const;
    /// Waits until no request is under way, at most so long.
    void finish(std::chrono::milliseconds most) const;

private:
    class State;
    std::unique_ptr<State> state_;
};

/// As many of `wanted` connections as this process may have open files for. Raises its own limit
/// first, as far as the system allows.
std::int64_t possible_connections(std::int64_t wanted);

/// "libmicrohttpd 0.9.75": the library in use.
std::string microhttpd_version();

}  // namespace gptrain
