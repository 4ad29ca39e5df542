// Requests of HTTP clients and their answers.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gptrain {

struct HttpRequest {
    std::string client = {};  ///< its address, without its port
    std::string version;      ///< "HTTP/1.1"
    std::string method;
    std::string path;  ///< without the query
    std::string body;
    std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();
    // Headers; empty if missing.
    std::string authorization;
    std::string host;  ///< or that of a target in absolute form (http://HOST/PATH)
    std::string origin;
};

struct HttpReply {
    int status = 200;
    std::string type = "application/json";
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers = {};  ///< further ones
};

/// The answer to one request, whole or as a stream. Any thread may call it at any time; once the
/// client is gone, the calls do nothing.
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

/// True for texts that differ in the case of ASCII letters at most.
bool same_without_case(std::string_view a, std::string_view b);

/// {"error": {"message": ..., "type": ..., "code": status}}, the form of OpenAI's errors.
HttpReply http_error(int status, std::string_view message);

}  // namespace gptrain
