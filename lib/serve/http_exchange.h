// One request of the HTTP server, and its answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <microhttpd.h>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http.h"

namespace gptrain {

/// Queues a whole reply.
MHD_Result queue_reply(MHD_Connection* connection, HttpReply reply);

/// Sends a reply past the library to a client that is still sending its request, and then no more:
/// the library would close the connection, whereupon the client's system drops the reply if it
/// has sent anything that nobody read. Read, and drop, what it sends.
void send_early(MHD_Connection* connection, const HttpReply& reply);

/// A request from its first header to the end of its answer. The server's thread, the one that
/// answers and the one that watches share it. While there is nothing to send the connection sleeps.
class HttpExchange final : public HttpAnswer {
public:
    /// A client that falls more than `most_unread` bytes behind its stream is disconnected.
    HttpExchange(MHD_Connection* connection, std::int64_t most_unread)
        : connection_(connection), most_unread_(static_cast<std::size_t>(most_unread)) {}

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

    // The request's state, for the server's thread alone.
    std::string body;
    bool refused = false;  ///< early: the client has its reply
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
    std::size_t most_unread_;
    bool asleep_ = false;  ///< suspended
    std::optional<HttpReply> reply_;
    bool streams_ = false;
    bool ended_ = false;
    std::string stream_;    ///< what is left of it to send, behind what was sent
    std::size_t sent_ = 0;  ///< bytes of stream_
    std::atomic<bool> gone_ = false;
};

}  // namespace gptrain
