#include "serve/http_exchange.h"

#include <algorithm>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "base/text.h"

namespace gptrain {
namespace {

constexpr std::size_t stream_block_bytes = 4096;

using Headers = std::vector<std::pair<std::string, std::string>>;

Headers headers_of(const HttpReply& reply) {
    Headers headers = reply.headers;
    headers.emplace_back(MHD_HTTP_HEADER_CONTENT_TYPE, reply.type);
    if (reply.status == MHD_HTTP_UNAUTHORIZED)
        headers.emplace_back(MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (reply.status == MHD_HTTP_TOO_MANY_REQUESTS)
        headers.emplace_back(MHD_HTTP_HEADER_RETRY_AFTER, "1");
    return headers;
}

}  // namespace

MHD_Result queue_reply(MHD_Connection* connection, HttpReply reply) {
    // The library reads the body where it lies until the reply is sent.
    auto body = std::make_unique<std::string>(std::move(reply.body));
    const auto release = [](void* cls) { delete static_cast<std::string*>(cls); };
    MHD_Response* response = MHD_create_response_from_buffer_with_free_callback_cls(
        body->size(), body->data(), release, body.get());
    if (response == nullptr) return MHD_NO;
    static_cast<void>(body.release());
    for (const auto& [name, value] : headers_of(reply))
        MHD_add_response_header(response, name.c_str(), value.c_str());
    const MHD_Result result =
        MHD_queue_response(connection, static_cast<unsigned>(reply.status), response);
    MHD_destroy_response(response);
    return result;
}

void send_early(MHD_Connection* connection, const HttpReply& reply) {
    const auto status = static_cast<unsigned>(reply.status);
    std::string bytes = text("HTTP/1.1 ", status, " ", MHD_get_reason_phrase_for(status), "\r\n");
    for (const auto& [name, value] : headers_of(reply))
        if (name != MHD_HTTP_HEADER_CONNECTION) bytes += text(name, ": ", value, "\r\n");
    bytes +=
        text("Connection: close\r\nContent-Length: ", reply.body.size(), "\r\n\r\n", reply.body);
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    // A few hundred bytes fit into the empty buffer of the socket. If not, the client has gone.
    static_cast<void>(::send(info->connect_fd, bytes.data(), bytes.size(), MSG_NOSIGNAL));
    static_cast<void>(::shutdown(info->connect_fd, SHUT_WR));
}

void HttpExchange::send(HttpReply reply) {
    const std::lock_guard lock(mutex_);
    if (gone_) return;
    reply_ = std::move(reply);
    wake();
}

void HttpExchange::begin_events() {
    const std::lock_guard lock(mutex_);
    streams_ = true;
    wake();
}

void HttpExchange::write(std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    if (gone_) return;
    // Once this moves no more bytes than it removes.
    if (sent_ > stream_.size() / 2) stream_.erase(0, std::exchange(sent_, 0));
    stream_ += bytes;
    if (stream_.size() - sent_ > most_unread_) return give_up();
    wake();
}

void HttpExchange::end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    wake();
}

MHD_Result HttpExchange::answer_or_sleep(const std::shared_ptr<HttpExchange>& self) {
    {
        const std::lock_guard lock(mutex_);
        if (gone_) return MHD_NO;
        if (!reply_ && !streams_) {
            sleep();
            return MHD_YES;
        }
    }
    // Nobody changes these two any more. The library's own lock of a response comes before mutex_:
    // it holds it while it calls `read`.
    return reply_ ? queue_reply(connection_, *std::move(reply_)) : queue_stream(self);
}

void HttpExchange::release() {
    const std::lock_guard lock(mutex_);
    connection_ = nullptr;
    asleep_ = false;
    gone_ = true;
    reply_.reset();
    stream_ = std::string();
}

void HttpExchange::wake_if_gone() {
    const std::lock_guard lock(mutex_);
    // Only a sleeping connection is sure to have its socket still open.
    if (!asleep_) return;
    const auto* info = MHD_get_connection_info(connection_, MHD_CONNECTION_INFO_CONNECTION_FD);
    pollfd socket = {.fd = info->connect_fd, .events = POLLRDHUP, .revents = 0};
    if (::poll(&socket, 1, 0) > 0) give_up();
}

void HttpExchange::close() {
    const std::lock_guard lock(mutex_);
    give_up();
}

void HttpExchange::give_up() {
    gone_ = true;
    stream_ = std::string();
    wake();
}

void HttpExchange::sleep() {
    asleep_ = true;
    MHD_suspend_connection(connection_);
}

void HttpExchange::wake() {
    if (std::exchange(asleep_, false)) MHD_resume_connection(connection_);
}

MHD_Result HttpExchange::queue_stream(const std::shared_ptr<HttpExchange>& self) {
    const auto read = [](void* cls, std::uint64_t, char* to, std::size_t most) {
        return (*static_cast<std::shared_ptr<HttpExchange>*>(cls))->read(to, most);
    };
    const auto release = [](void* cls) { delete static_cast<std::shared_ptr<HttpExchange>*>(cls); };
    auto holder = std::make_unique<std::shared_ptr<HttpExchange>>(self);
    MHD_Response* response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, stream_block_bytes,
                                                               read, holder.get(), release);
    if (response == nullptr) return MHD_NO;
    static_cast<void>(holder.release());
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    const MHD_Result result = MHD_queue_response(connection_, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

ssize_t HttpExchange::read(char* to, std::size_t most) {
    const std::lock_guard lock(mutex_);
    if (gone_) return MHD_CONTENT_READER_END_WITH_ERROR;
    const std::size_t count = std::min(most, stream_.size() - sent_);
    if (count > 0) {
        std::memcpy(to, stream_.data() + sent_, count);
        sent_ += count;
    } else if (ended_) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        sleep();
    }
    return static_cast<ssize_t>(count);
}

}  // namespace gptrain
