// NCCL's report on a hang, from something that answers in its place.
#include "watch/nccl_report.h"

#include <arpa/inet.h>
#include <cstdlib>
#include <functional>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "base/text.h"
#include "catch.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using namespace std::chrono_literals;

/// Listens on localhost; `answer` gets the first connection.
class Answerer {
public:
    explicit Answerer(std::function<void(int client)> answer)
        : server_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto* const any = reinterpret_cast<sockaddr*>(&address);
        socklen_t length = sizeof address;
        REQUIRE(::bind(server_, any, length) == 0);
        REQUIRE(::listen(server_, 1) == 0);
        REQUIRE(::getsockname(server_, any, &length) == 0);
        port_ = ntohs(address.sin_port);
        thread_ = std::jthread([this, answer = std::move(answer)] {
            const int client = ::accept(server_, nullptr, nullptr);
            answer(client);
            ::close(client);
        });
    }
    ~Answerer() {
        ::shutdown(server_, SHUT_RDWR);
        ::close(server_);
    }
    int port() const { return port_; }

private:
    int server_;
    int port_ = 0;
    std::jthread thread_;
};

void say(int client, std::string_view words) {
    static_cast<void>(::send(client, words.data(), words.size(), MSG_NOSIGNAL));
}

void read_line(int client) {
    char next = 0;
    while (::read(client, &next, 1) == 1 && next != '\n') {
    }
}

TEST_CASE("an answer that does not end in time is kept as far as it came") {
    const Answerer nccl([](int client) {
        read_line(client);
        say(client, "OK\n");
        read_line(client);
        say(client, "half a report");
        read_line(client);  // until the other side leaves
    });
    CHECK(nccl_report(text("[127.0.0.1]:", nccl.port()), 200ms) ==
          "half a report\n(the rest did not arrive in time)\n");
}

TEST_CASE("without an answer there is no report and no file") {
    const test::TempFolder folder;
    int closed = 0;
    {
        const Answerer nccl([](int client) {
            read_line(client);
            read_line(client);
        });
        closed = nccl.port();
        CHECK_FALSE(keep_nccl_report(text("localhost:", closed), folder / "report", 100ms));
    }
    CHECK(nccl_report(text("localhost:", closed), 100ms).empty());
    CHECK(nccl_report("localhost", 100ms).empty());
    CHECK_FALSE(std::filesystem::exists(folder / "report"));
}

TEST_CASE("NCCL listens where its environment says") {
    ::unsetenv("NCCL_RAS_ADDR");
    ::unsetenv("NCCL_RAS_ENABLE");
    CHECK(nccl_report_address(true) == "localhost:28028");
    CHECK_FALSE(nccl_report_address(false));
    ::setenv("NCCL_RAS_ADDR", "localhost:9", 1);
    CHECK(nccl_report_address(true) == "localhost:9");
    CHECK(nccl_report_address(false) == "localhost:9");
    ::setenv("NCCL_RAS_ENABLE", "0", 1);
    CHECK_FALSE(nccl_report_address(true));
    ::unsetenv("NCCL_RAS_ADDR");
    ::unsetenv("NCCL_RAS_ENABLE");
}

}  // namespace
}  // namespace gptrain
