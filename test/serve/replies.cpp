// The replies that clients get: streams, whole replies and errors.
#include "catch.h"
#include "client.h"
#include "serve/completion_reply.h"
#include "served_ids.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

/// The events of a stream.
std::vector<std::string> events_of(std::string_view body) {
    std::vector<std::string> events;
    while (!body.empty()) {
        REQUIRE(body.starts_with("data: "));
        const std::size_t end = body.find("\n\n");
        REQUIRE(end != std::string_view::npos);
        events.emplace_back(body.substr(6, end - 6));
        body.remove_prefix(end + 2);
    }
    return events;
}

CompletionReply reply_to(const std::shared_ptr<Client>& client, ServeMetrics& metrics,
                         const std::string& request) {
    return {client,
            parse_completion(request),
            {std::make_shared<const std::vector<std::int32_t>>(std::vector<std::int32_t>{5, 6, 7})},
            {served_codec(), metrics, "/v1/completions", "cmpl-1", "tiny"}};
}

AnswerPiece piece(std::string text, std::optional<TextEnd> end = {}) {
    return {.text = std::move(text), .new_tokens = 1, .tokens = {}, .end = end};
}

}  // namespace

TEST_CASE("a stream has an event for each text, the usage, and its mark at the end of all") {
    const auto client = std::make_shared<Client>();
    ServeMetrics metrics;
    CompletionReply reply =
        reply_to(client, metrics,
                 R"({"prompt":[5],"n":2,"stream":true,"stream_options":{"include_usage":true}})");
    reply.take(1, piece("8 "));
    reply.take(1, piece(""));  // a part of a character: nothing to show
    reply.take(1, piece("9 ", TextEnd::end_token));
    CHECK_FALSE(client->ended);
    reply.take(0, piece("", TextEnd::max_tokens));
    CHECK(client->ended);
    CHECK(reply.gone());
    const std::vector<std::string> events = events_of(client->body);
    REQUIRE(events.size() == 5);
    const Json first = parse_json(events[0], "event");
    CHECK(first.at("id") == "cmpl-1");
    CHECK(first.at("object") == "text_completion");
    CHECK(first.at("model") == "tiny");
    const auto choice = [&](std::size_t event) {
        return to_line(parse_json(events[event], "event").at("choices").at(0));
    };
    CHECK(choice(0) == R"({"index":1,"text":"8 ","logprobs":null,"finish_reason":null})");
    CHECK(choice(1) == R"({"index":1,"text":"9 ","logprobs":null,"finish_reason":"stop"})");
    CHECK(choice(2) == R"({"index":0,"text":"","logprobs":null,"finish_reason":"length"})");
    const Json usage = parse_json(events[3], "event");
    CHECK(usage.at("choices").empty());
    CHECK(to_line(usage.at("usage")) ==
          R"({"prompt_tokens":3,"completion_tokens":4,"total_tokens":7})");
    CHECK(events[4] == "[DONE]");
    CHECK(contains(metrics.to_text(),
                   "gptrain_requests_total{path=\"/v1/completions\",status=\"200\"} 1\n"));
}

TEST_CASE("a whole reply has all choices, each with its prompt if it echoes") {
    const auto client = std::make_shared<Client>();
    ServeMetrics metrics;
    CompletionReply reply = reply_to(client, metrics, R"({"prompt":[5],"n":2,"echo":true})");
    reply.take(0, piece("8 "));
    reply.take(1, piece("9 ", TextEnd::stop_text));
    CHECK(client->status == 0);
    reply.take(0, piece("1 ", TextEnd::last_position));
    CHECK(client->status == 200);
    const Json choices = parse_json(client->body, "reply").at("choices");
    REQUIRE(choices.size() == 2);
    CHECK(choices[0].at("text") == "5 6 7 8 1 ");
    CHECK(choices[0].at("finish_reason") == "length");
    CHECK(choices[1].at("text") == "5 6 7 9 ");
    CHECK(choices[1].at("finish_reason") == "stop");
}

TEST_CASE("a whole reply that becomes too long is given up, a stream is not") {
    const auto status = [](const std::string& request, std::int64_t most) {
        const auto client = std::make_shared<Client>();
        ServeMetrics metrics;
        CompletionReply reply(client, parse_completion(request),
                              {std::make_shared<const std::vector<std::int32_t>>(3, 5)},
                              {.codec = served_codec(),
                               .metrics = metrics,
                               .path = "/v1/completions",
                               .id = "cmpl-1",
                               .model = "tiny",
                               .most_bytes = most});
        for (int i = 0; i < 9; ++i)
            reply.take(0, piece("0123456789"));
        reply.take(0, piece("0123456789", TextEnd::max_tokens));
        reply.take(1, piece("0123456789", TextEnd::max_tokens));
        CHECK(reply.gone());
        if (client->status == 400) CHECK(contains(client->body, "the reply has more than "));
        if (client->status == 200) CHECK(std::ssize(client->body) > 250);
        return client->status;
    };
    CHECK(status(R"({"prompt":[5],"n":2})", 1000) == 200);
    CHECK(status(R"({"prompt":[5],"n":2})", 250) == 400);  // with what surrounds the texts
    CHECK(status(R"({"prompt":[5],"n":2})", 50) == 400);
    CHECK(status(R"({"prompt":[5],"n":2,"stream":true})", 50) == 0);
}

TEST_CASE("an error is a status until a stream has begun, then its last event") {
    const std::string request = R"({"prompt":[5],"stream":true})";
    ServeMetrics metrics;
    const auto early = std::make_shared<Client>();
    {
        CompletionReply reply = reply_to(early, metrics, request);
        reply.give_up(503, "late");
        reply.give_up(500, "again");
    }
    CHECK(early->status == 503);
    CHECK_FALSE(early->streams);
    CHECK(contains(metrics.to_text(), "gptrain_failed_streams_total 0\n"));
    const auto late = std::make_shared<Client>();
    {
        CompletionReply reply = reply_to(late, metrics, request);
        reply.take(0, piece("8 "));
        reply.give_up(503, "late");
    }
    CHECK(late->status == 0);
    CHECK(late->ended);
    CHECK(contains(metrics.to_text(), "gptrain_failed_streams_total 1\n"));
    const std::vector<std::string> events = events_of(late->body);
    REQUIRE(events.size() == 2);
    CHECK(parse_json(events[1], "event").at("error").at("code") == 503);
}

TEST_CASE("a reply that nobody finishes ends with the server, or counts a client that left") {
    ServeMetrics metrics;
    const auto stays = std::make_shared<Client>();
    const auto left = std::make_shared<Client>();
    left->left = true;
    for (const auto& client : {stays, left})
        CHECK(reply_to(client, metrics, R"({"prompt":[5]})").gone() == client->left);
    CHECK(stays->status == 503);
    CHECK(left->status == 0);
    CHECK(contains(metrics.to_text(), "gptrain_disconnects_total 1\n"));
}

}  // namespace gptrain::test
