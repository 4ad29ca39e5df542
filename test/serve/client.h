// A client of the server, which notes what it gets.
#pragma once

#include <string>

#include "catch.h"
#include "serve/http.h"

namespace gptrain::test {

struct Client final : HttpAnswer {
    void send(HttpReply given) override {
        CHECK(status == 0);
        status = given.status;
        body = given.body;
    }
    void begin_events() override { streams = true; }
    void write(std::string_view bytes) override {
        CHECK((streams && !ended));
        body += bytes;
    }
    void end() override { ended = true; }
    bool gone() const override { return left; }

    int status = 0;
    std::string body;
    bool streams = false;
    bool ended = false;
    bool left = false;
};

}  // namespace gptrain::test
