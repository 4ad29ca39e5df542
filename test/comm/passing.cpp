// Messages that ranks pass on.
#include <string>

#include "catch.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

MpiSession::Message as_message(const std::string& text) {
    return std::as_bytes(std::span(text));
}

std::string as_text(MpiSession::Message message) {
    return {reinterpret_cast<const char*>(message.data()), message.size()};
}

/// The messages "RANK.0", "RANK.1", ...
class Sender {
public:
    explicit Sender(int messages) : messages_(messages) {}
    MpiSession::Message operator()() {
        if (sent_ == messages_) return {};
        text_ = text(session().rank(), '.', sent_++);
        return as_message(text_);
    }

private:
    int messages_;
    int sent_ = 0;
    std::string text_;
};

}  // namespace

TEST_CASE("Ranks pass messages on in a ring, each as many as it has") {
    if (!session().running()) return;
    const int ranks = session().size();
    const int to = (session().rank() + 1) % ranks;
    const int from = (session().rank() + ranks - 1) % ranks;
    Sender sender(session().rank() + 1);
    std::string arrived;
    session().pass([&] { return sender(); }, to,
                   [&](MpiSession::Message message) { arrived += as_text(message) + ' '; }, from);
    std::string expected;
    for (int i = 0; i <= from; ++i)
        expected += text(from, '.', i, ' ');
    CHECK(arrived == expected);
}

TEST_CASE("A rank that cannot take a message holds up no other") {
    if (!session().running()) return;
    const int ranks = session().size();
    const int to = (session().rank() + 1) % ranks;
    const int from = (session().rank() + ranks - 1) % ranks;
    const int faulty = ranks / 2;
    for (const bool sends : {false, true}) {
        Sender sender(5);
        const auto next = [&] {
            if (sends && session().rank() == faulty) fail(ExitCode::io, "cannot send");
            return sender();
        };
        int taken = 0;
        const auto take = [&](MpiSession::Message) {
            if (!sends && session().rank() == faulty) fail(ExitCode::io, "cannot take");
            ++taken;
        };
        bool threw = false;
        try {
            session().pass(next, to, take, from);
        } catch (const Error& error) {
            threw = error.code() == ExitCode::io;
        }
        CHECK(threw == (session().rank() == faulty));
        const bool whole = session().rank() != faulty && from != faulty;
        if (whole) CHECK(taken == 5);
        if (sends && from == faulty) CHECK(taken == 0);
    }
}

}  // namespace gptrain::test
