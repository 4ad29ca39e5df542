// An HTTP/1.1 server in a thread of its own (libmicrohttpd), for requests whose answers take long:
// another thread answers them whenever it can. No request can hold more than the limits allow.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace gptrain {

struct HttpLimits {
    std::int64_t connections = 256;      ///< at a time; more wait to be accepted
    std::int64_t head_bytes = 32 << 10;  ///< request line and headers
    std::int64_t body_bytes = 4 << 20;   ///< of a request
    std::int64_t read_seconds = 30;      ///< to send a request, or to be idle
};

struct HttpRequest {
    std::string method;
    std::string path;  ///< without the query
    std::string body;
    // Headers; empty if missing.
    std::string authorization;
    std::string host;
    std::string origin;
};

struct HttpReply {
    int status = 200;
    std::string type = "application/json";
    std::string body;
};

/// The answer to one request, whole or as a stream. Any thread may call it, for as long as it
/// likes: once the client is gone, nothing happens.
class HttpAnswer {
public:
    virtual ~HttpAnswer() = default;
    /// Answers as a whole. Call it once, and none of the next three.
    virtual void send(HttpReply reply) = 0;
    /// Begins a stream of server-sent events, adds to it, and ends it.
    virtual void begin_events() = 0;
    virtual void write(std::string_view bytes) = 0;
    virtual void end() = 0;
    /// True once the client has closed its connection.
    virtual bool gone() const = 0;
};

/// Called on the server's thread; must not block.
struct HttpHandlers {
    /// Of a request without its body: a reply if it is not worth reading.
    std::function<std::optional<HttpReply>(const HttpRequest&)> refuse;
    /// Of a complete request.
    std::function<void(const HttpRequest&, const std::shared_ptr<HttpAnswer>&)> answer;
};

class HttpServer {
public:
    /// Listens at a numeric address; port 0 is any free one. Error (usage) if it cannot.
    HttpServer(const std::string& address, int port, const HttpLimits& limits,
               HttpHandlers handlers);
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;
    /// Closes all connections.
    ~HttpServer();

    int port() const;
    /// Waits until no request is under way, at most so long.
    void finish(std::chrono::milliseconds most) const;

private:
    class State;
    std::unique_ptr<State> state_;
};

/// {"error": {"message": ..., "type": ..., "code": status}}, the form of OpenAI's errors.
HttpReply http_error(int status, std::string_view message);

/// True for an address that only this machine can reach.
bool is_loopback(const std::string& address);

}  // namespace gptrain
