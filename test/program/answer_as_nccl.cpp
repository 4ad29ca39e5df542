// Answers questions about a hang as NCCL does, until it is killed; listens on a free port of
// localhost and prints the address. The answer comes in two parts.
#include <arpa/inet.h>
#include <cstdio>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

namespace {

/// The next line that a client sends, without its end.
std::string read_line(int client) {
    std::string line;
    char next = 0;
    while (::read(client, &next, 1) == 1 && next != '\n')
        line += next;
    return line;
}

bool say(int client, std::string_view text) {
    return ::send(client, text.data(), text.size(), MSG_NOSIGNAL) >= 0;
}

bool answer(int client) {
    const bool known = read_line(client) == "TIMEOUT 1";
    if (!say(client, known ? "OK\n" : "ERROR: the time is missing\n")) return false;
    if (read_line(client) != "VERBOSE STATUS") return false;
    if (!say(client, "Job summary\n")) return false;
    ::usleep(100'000);
    return say(client, known ? "rank 0 is behind\n" : "?\n");
}

}  // namespace

int main() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    const int server = ::socket(AF_INET, SOCK_STREAM, 0);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(server, any, length) != 0 || ::listen(server, 8) != 0 ||
        ::getsockname(server, any, &length) != 0)
        return 1;
    std::printf("localhost:%d\n", ntohs(address.sin_port));
    std::fflush(stdout);
    for (;;) {
        const int client = ::accept(server, nullptr, nullptr);
        if (client < 0) return 1;
        answer(client);
        ::close(client);
    }
}
