// One request of the HTTP server, and its answer.
#pragma once

#include <atomic>
#include <memory>
#include <microhttpd.h>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http.h"

namespace gptrain {

/// A client that falls this many bytes behind its stream is disconnected.
constexpr std::size_t most_unsent_bytes = std::size_t{16} << 20;

/// Queues a whole reply.
MHD_Result queue_reply(MHD_Connection* connection, const HttpReply& reply);

/// A request from its first header to the end of its answer. The server's thread, the one that
/// answers and the one that watches share it. While there is nothing to send the connection sleeps.
class HttpExchange final : public HttpAnswer {
public:
    explicit HttpExchange(MHD_Connection* connection) : connection_(connection) {}

    void send(HttpReply reply) override;
    void begin_events() override;
    void write(std::string_view bytes) override;
    void end() override;
    bool gone() const override { return gone_; }

    /// Queues the answer if there is one; otherwise the connection sleeps until there is. `self`:
    /// this object.
    MHD_Result answer_or_sleep(const std::shared_ptr<HttpExchange>& self);
    /// The request is over: the library forgets the connection.
    void release();
    /// Wakes a sleeping connection whose client has gone, so that the library closes it.
    void wake_if_gone();
    /// Gives up on the client.
    void close();

    // Of the request, for the server's thread alone.
    std::string body;
    bool too_long = false;
    bool received = false;

private:
    // With the mutex held:
    void give_up();
    void sleep();
    void wake();

    MHD_Result queue_stream(const std::shared_ptr<HttpExchange>& self);
    /// Moves bytes of the stream to the library: MHD_ContentReaderCallback.
    ssize_t read(char* to, std::size_t most);

    std::mutex mutex_;
    MHD_Connection* connection_;
    bool asleep_ = false;  ///< suspended
    std::optional<HttpReply> reply_;
    bool streams_ = false;
    bool ended_ = false;
    std::string stream_;    ///< what is left of it to send, behind what was sent
    std::size_t sent_ = 0;  ///< bytes of stream_
    std::atomic<bool> gone_ = false;
};

}  // namespace gptrain
