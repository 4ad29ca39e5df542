#include "serve/http_server.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <microhttpd.h>
#include <mutex>
#include <netdb.h>
#include <netinet/in.h>
#include <set>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "serve/http_exchange.h"
#include "serve/listening_socket.h"

namespace gptrain {
namespace {

using Clock = std::chrono::steady_clock;

// How often the watching thread looks for clients that are gone or too slow.
constexpr auto watch_interval = std::chrono::milliseconds(100);

/// The values of all headers with a name.
std::vector<std::string> headers(MHD_Connection* connection, std::string_view name) {
    std::pair<std::string_view, std::vector<std::string>> found = {name, {}};
    const auto add = [](void* cls, MHD_ValueKind, const char* key, const char* value) {
        auto& [wanted, values] = *static_cast<decltype(found)*>(cls);
        if (same_without_case(key, wanted)) values.emplace_back(value == nullptr ? "" : value);
        return MHD_YES;
    };
    using Add = MHD_Result (*)(void*, MHD_ValueKind, const char*, const char*);
    MHD_get_connection_values(connection, MHD_HEADER_KIND, static_cast<Add>(add), &found);
    return found.second;
}

std::string header(MHD_Connection* connection, std::string_view name) {
    const std::vector<std::string> values = headers(connection, name);
    return values.empty() ? std::string() : values.front();
}

/// The error for a head with a fault that the library leaves to us (RFC 9112, sections 3.2, 6.1 and
/// 6.3).
std::optional<HttpReply> find_fault(MHD_Connection* connection, const HttpRequest& request) {
    const auto hosts = headers(connection, MHD_HTTP_HEADER_HOST);
    if (hosts.size() > 1) return http_error(400, "the request has several Host headers");
    if (hosts.empty() && request.version != MHD_HTTP_VERSION_1_0)
        return http_error(400, "the request has no Host header");
    const auto lengths = headers(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    for (const std::string& length : lengths)
        if (length != lengths.front())
            return http_error(400, "the request has several Content-Length headers");
    const auto codings = headers(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    if (codings.empty()) return std::nullopt;
    if (!lengths.empty())
        return http_error(400, "the request has both Content-Length and Transfer-Encoding");
    if (codings.size() == 1 && same_without_case(codings.front(), "chunked")) return std::nullopt;
    return http_error(501, "the only Transfer-Encoding is chunked");
}

/// True if a body follows without an answer to the head: the client does not wait for status 100.
bool sends_body(MHD_Connection* connection) {
    if (!headers(connection, MHD_HTTP_HEADER_EXPECT).empty()) return false;
    if (!headers(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING).empty()) return true;
    const auto lengths = headers(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return std::any_of(lengths.begin(), lengths.end(),
                       [](const std::string& length) { return length != "0"; });
}

/// The address of a client, without its port.
std::string address_of(MHD_Connection* connection) {
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    char name[NI_MAXHOST] = {};
    const socklen_t size =
        info->client_addr->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    const int failed =
        getnameinfo(info->client_addr, size, name, sizeof(name), nullptr, 0, NI_NUMERICHOST);
    return failed == 0 ? name : "";
}

/// Takes a request's target, which may be in absolute form: http://HOST/PATH.
void take_target(std::string_view target, HttpRequest& request) {
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (!same_without_case(target.substr(0, scheme.size()), scheme)) continue;
        target.remove_prefix(scheme.size());
        const std::size_t slash = std::min(target.find('/'), target.size());
        request.host = target.substr(0, slash);
        target.remove_prefix(slash);
        if (target.empty()) target = "/";
    }
    request.path = target;
}

}  // namespace

std::int64_t possible_connections(std::int64_t wanted) {
    // For files, pipes and the connections of ranks.
    constexpr std::int64_t others = 64;
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        fail_errno(errno, "cannot read the limit of open files");
    const auto needed = static_cast<rlim_t>(wanted + others);
    if (limit.rlim_cur >= needed) return wanted;
    rlimit raised = limit;
    raised.rlim_cur = std::min(needed, limit.rlim_max);
    const bool is_raised = setrlimit(RLIMIT_NOFILE, &raised) == 0;
    const rlim_t most = is_raised ? raised.rlim_cur : limit.rlim_cur;
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(most) - others, 1, wanted);
}

class HttpServer::State {
public:
    State(const std::string& address, int port, const HttpLimits& limits, HttpHandlers handlers)
        : limits_(limits), handlers_(std::move(handlers)) {
        ListeningSocket socket(address, port);
        port_ = socket.port();
        daemon_ = start(socket.number());
        if (daemon_ == nullptr) fail(ExitCode::usage, "cannot start the HTTP server");
        static_cast<void>(socket.release());
        watcher_ = std::thread([this] { watch(); });
    }
    ~State() {
        {
            const std::lock_guard lock(mutex_);
            stops_ = true;
        }
        stopping_.notify_all();
        watcher_.join();
        // The library waits for connections that sleep.
        for (const auto& exchange : exchanges())
            exchange->close();
        MHD_stop_daemon(daemon_);
    }

    int port() const { return port_; }

    void finish(std::chrono::milliseconds most) {
        const auto end = Clock::now() + most;
        while (Clock::now() < end && !exchanges().empty())
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }

private:
    /// A connection; while `reads`, its client must send something soon.
    struct Client {
        int socket = -1;
        bool reads = true;
        Clock::time_point since;
    };

    MHD_Daemon* start(int socket) {
        const auto on_request = [](void* cls, MHD_Connection* connection, const char* url,
                                   const char* method, const char* version, const char* data,
                                   std::size_t* size, void** state) {
            HttpRequest request;
            request.version = version;
            request.method = method;
            take_target(url, request);
            return static_cast<State*>(cls)->on_request(connection, std::move(request),
                                                        {data, *size}, size, state);
        };
        const auto on_end = [](void* cls, MHD_Connection* connection, void** request,
                               MHD_RequestTerminationCode) {
            static_cast<State*>(cls)->on_end(connection, request);
        };
        const auto on_connection = [](void* cls, MHD_Connection* connection, void** client,
                                      MHD_ConnectionNotificationCode code) {
            static_cast<State*>(cls)->on_connection(connection, client, code);
        };
        // The library passes the result to handlers as a C string, which a NUL must not end.
        const auto unescape = [](void*, MHD_Connection*, char* url) {
            const std::size_t size = MHD_http_unescape(url);
            std::replace(url, url + size, '\0', '\x01');
            return size;
        };
        using Unescape = std::size_t (*)(void*, MHD_Connection*, char*);
        using OnRequest = MHD_Result (*)(void*, MHD_Connection*, const char*, const char*,
                                         const char*, const char*, std::size_t*, void**);
        using OnEnd = void (*)(void*, MHD_Connection*, void**, MHD_RequestTerminationCode);
        using OnConnection =
            void (*)(void*, MHD_Connection*, void**, MHD_ConnectionNotificationCode);
        // Not epoll: with it the library misses a connection's end that arrives together with data.
        return MHD_start_daemon(
            MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr,
            static_cast<OnRequest>(on_request), this, MHD_OPTION_LISTEN_SOCKET, socket,
            MHD_OPTION_CONNECTION_LIMIT, narrow<unsigned>(limits_.connections),
            MHD_OPTION_CONNECTION_MEMORY_LIMIT, static_cast<std::size_t>(limits_.head_bytes),
            MHD_OPTION_CONNECTION_TIMEOUT, narrow<unsigned>(limits_.read_seconds),
            MHD_OPTION_NOTIFY_COMPLETED, static_cast<OnEnd>(on_end), this,
            MHD_OPTION_UNESCAPE_CALLBACK, static_cast<Unescape>(unescape), nullptr,
            MHD_OPTION_NOTIFY_CONNECTION, static_cast<OnConnection>(on_connection), this,
            MHD_OPTION_END);
    }

    MHD_Result on_request(MHD_Connection* connection, HttpRequest request, std::string_view data,
                          std::size_t* unread, void** state) {
        auto* held = static_cast<std::shared_ptr<HttpExchange>*>(*state);
        if (held == nullptr) return on_head(connection, request, state);
        HttpExchange& exchange = **held;
        if (!data.empty()) {
            take_body(connection, exchange, data);
            *unread = 0;
            return MHD_YES;
        }
        if (exchange.refused) return MHD_NO;  // the client has its reply, and this has all it sent
        if (!exchange.received) {
            exchange.received = true;
            set_reads(connection, false);
            request.client = address_of(connection);
            request.body = std::move(exchange.body);
            handlers_.answer(std::move(request), *held);
        }
        return exchange.answer_or_sleep(*held);
    }

    void take_body(MHD_Connection* connection, HttpExchange& exchange,
                   std::string_view data) const {
        if (exchange.refused) return;
        if (std::ssize(exchange.body) + std::ssize(data) <= limits_.body_bytes) {
            exchange.body += data;
            return;
        }
        exchange.refused = true;
        exchange.body = std::string();
        send_early(connection, too_long());
    }

    /// The error for a request whose body is not worth reading.
    std::optional<HttpReply> refusal_for(MHD_Connection* connection,
                                         const HttpRequest& request) const {
        if (auto refusal = find_fault(connection, request)) {
            // The bytes that follow may not be what they seem.
            refusal->headers = {{MHD_HTTP_HEADER_CONNECTION, "close"}};
            return refusal;
        }
        if (auto refusal = handlers_.refuse(request)) return refusal;
        const auto length = parse_int(header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH));
        if (length && *length > limits_.body_bytes) return too_long();
        return std::nullopt;
    }

    /// The headers are there, the body is not.
    MHD_Result on_head(MHD_Connection* connection, HttpRequest& request, void** state) {
        set_reads(connection, true);  // the time to send begins again
        request.authorization = header(connection, MHD_HTTP_HEADER_AUTHORIZATION);
        if (request.host.empty()) request.host = header(connection, MHD_HTTP_HEADER_HOST);
        request.origin = header(connection, MHD_HTTP_HEADER_ORIGIN);
        const auto refusal = refusal_for(connection, request);
        if (refusal && !sends_body(connection)) return queue_reply(connection, *refusal);
        auto exchange = std::make_shared<HttpExchange>(connection, limits_.unread_bytes);
        if (refusal) {
            exchange->refused = true;
            send_early(connection, *refusal);
        }
        const std::lock_guard lock(mutex_);
        if (stops_) return MHD_NO;
        exchanges_.insert(exchange);
        *state = new std::shared_ptr<HttpExchange>(std::move(exchange));
        return MHD_YES;
    }

    HttpReply too_long() const {
        return http_error(413, text("the request is longer than ", limits_.body_bytes, " bytes"));
    }

    void on_end(MHD_Connection* connection, void** state) {
        const std::unique_ptr<std::shared_ptr<HttpExchange>> held(
            static_cast<std::shared_ptr<HttpExchange>*>(std::exchange(*state, nullptr)));
        if (held == nullptr) return;
        (*held)->release();
        set_reads(connection, true);
        const std::lock_guard lock(mutex_);
        exchanges_.erase(*held);
    }

    void on_connection(MHD_Connection* connection, void** client,
                       MHD_ConnectionNotificationCode code) {
        const std::lock_guard lock(mutex_);
        if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
            const std::unique_ptr<Client> over(static_cast<Client*>(*client));
            clients_.erase(over.get());
            return;
        }
        const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        auto added = std::make_unique<Client>(
            Client{.socket = info->connect_fd, .reads = true, .since = Clock::now()});
        clients_.insert(added.get());
        *client = added.release();
    }

    void set_reads(MHD_Connection* connection, bool reads) {
        const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        if (info == nullptr || info->socket_context == nullptr) return;
        const std::lock_guard lock(mutex_);
        auto& client = *static_cast<Client*>(info->socket_context);
        client.reads = reads;
        client.since = Clock::now();
    }

    std::vector<std::shared_ptr<HttpExchange>> exchanges() {
        const std::lock_guard lock(mutex_);
        return {exchanges_.begin(), exchanges_.end()};
    }

    void watch() {
        while (true) {
            {
                std::unique_lock lock(mutex_);
                if (stopping_.wait_for(lock, watch_interval, [&] { return stops_; })) return;
                // The library's own limit begins again with every byte.
                const auto late = Clock::now() - std::chrono::seconds(limits_.read_seconds);
                for (const Client* client : clients_)
                    if (client->reads && client->since < late)
                        ::shutdown(client->socket, SHUT_RDWR);
            }
            for (const auto& exchange : exchanges())
                exchange->wake_if_gone();
        }
    }

    HttpLimits limits_;
    HttpHandlers handlers_;
    int port_ = 0;
    MHD_Daemon* daemon_ = nullptr;
    std::mutex mutex_;
    std::condition_variable stopping_;
    bool stops_ = false;
    std::set<std::shared_ptr<HttpExchange>> exchanges_;  ///< under way
    std::set<Client*> clients_;                          ///< connected
    std::thread watcher_;
};

HttpServer::HttpServer(const std::string& address, int port, const HttpLimits& limits,
                       HttpHandlers handlers)
    : state_(std::make_unique<State>(address, port, limits, std::move(handlers))) {}

HttpServer::~HttpServer() = default;

int HttpServer::port() const {
    return state_->port();
}

void HttpServer::finish(std::chrono::milliseconds most) const {
    state_->finish(most);
}

std::string microhttpd_version() {
    return text("libmicrohttpd ", MHD_get_version());
}

}  // namespace gptrain
