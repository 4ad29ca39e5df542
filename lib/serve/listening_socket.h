// The addresses that a server listens at.
#pragma once

#include <string>

namespace gptrain {

/// True for a numeric address, the only kind that a server listens at.
bool is_address(const std::string& text);
/// True for an address that only this machine can reach.
bool is_loopback(const std::string& address);

/// A TCP socket that clients can connect to; closed at the end unless it is released.
class ListeningSocket {
public:
    /// At a numeric address; port 0 is any free one. Error (usage) if it cannot.
    ListeningSocket(const std::string& address, int port);
    ListeningSocket(const ListeningSocket&) = delete;
    ListeningSocket& operator=(const ListeningSocket&) = delete;
    ~ListeningSocket();

    int number() const { return number_; }
    int port() const;
    int release();

private:
    void close();

    int number_ = -1;
};

}  // namespace gptrain
