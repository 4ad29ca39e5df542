// Who may ask, what is asked for, and the replies.
#include "serve/service.h"

#include "catch.h"
#include "served_ids.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

/// A client of the server.
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
            {{5, 6, 7}},
            {served_codec(), metrics, "/v1/completions", "cmpl-1", "tiny"}};
}

AnswerPiece piece(std::string text, std::optional<TextEnd> end = {}) {
    return {.text = std::move(text), .new_tokens = 1, .tokens = {}, .end = end};
}

HttpRequest request_for(const std::string& method, const std::string& path,
                        const std::string& host = "") {
    return HttpRequest{.version = "HTTP/1.1",
                       .method = method,
                       .path = path,
                       .body = {},
                       .authorization = {},
                       .host = host,
                       .origin = {}};
}

/// Of the refusal of a request without its body; 0 if it is read.
int refusal(const ServiceOptions& options, const HttpRequest& request) {
    ServeMetrics metrics;
    const Service service(served_codec(), nullptr, options, metrics);
    const auto refused = service.refuse(request);
    return refused ? refused->status : 0;
}

const ServiceOptions local;
const ServiceOptions secret = {.model = {}, .token = "abc"};

/// A service with one place, where two answers may wait, and its clients.
struct Asked {
    ServeMetrics metrics;
    Service service{served_codec(),
                    nullptr,
                    {.model = "tiny", .token = {}, .positions = 10, .places = 1, .waiting = 2},
                    metrics};
    std::shared_ptr<Client> client;  ///< the last one

    int post(HttpRequest request) {
        service.answer(std::move(request), client);
        return client->status;
    }
    /// The status of a request with these members, 0 as long as it has no reply.
    int ask(const std::string& members) {
        client = std::make_shared<Client>();
        HttpRequest request = request_for("POST", "/v1/completions");
        request.body = "{" + members + "}";
        return post(std::move(request));
    }
    std::vector<Answer> new_answers() { return service.new_answers(std::chrono::milliseconds(0)); }
    std::string health() {
        const auto asks = std::make_shared<Client>();
        service.answer(request_for("GET", "/health"), asks);
        return std::to_string(asks->status) + " " + asks->body;
    }
};

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

TEST_CASE("a server for this machine alone refuses other names of a host") {
    const ServiceOptions open = {.model = {}, .token = {}, .loopback = false};
    for (const char* host : {"", "localhost", "LocalHost:80", "localhost:80", "127.0.0.1",
                             "127.9.9.9:8000", "[::1]", "[::1]:8000"}) {
        CAPTURE(host);
        CHECK(refusal(local, request_for("GET", "/health", host)) == 0);
    }
    for (const char* host : {"example.org", "localhost.example.org", "10.0.0.1", "[::2]:80"}) {
        CAPTURE(host);
        CHECK(refusal(local, request_for("GET", "/health", host)) == 403);
        CHECK(refusal(open, request_for("GET", "/health", host)) == 0);
    }
}

TEST_CASE("the server refuses pages of other origins") {
    HttpRequest page = request_for("GET", "/health", "localhost:80");
    page.origin = "http://localhost:80";
    CHECK(refusal(local, page) == 0);
    page.host = "LOCALHOST:80";
    CHECK(refusal(local, page) == 0);
    page.origin = "https://localhost:80";
    CHECK(refusal(local, page) == 0);
    for (const char* origin : {"http://localhost:81", "https://localhost", "ftp://localhost:80"}) {
        CAPTURE(origin);
        page.origin = origin;
        CHECK(refusal(local, page) == 403);
    }
    // Behind a proxy with TLS the server has another name and a token.
    page = request_for("GET", "/health", "llm.example.org");
    page.origin = "https://llm.example.org";
    CHECK(refusal(local, page) == 403);
    CHECK(refusal(secret, page) == 0);
    page.origin = "https://example.org";
    CHECK(refusal(secret, page) == 403);
}

TEST_CASE("the server refuses unknown paths, and other methods of a path") {
    CHECK(refusal(local, request_for("GET", "/v1/nothing")) == 404);
    CHECK(refusal(local, request_for("GET", "/health\n")) == 400);
    CHECK(refusal(local, request_for("GET", "/v1/completions")) == 405);
    CHECK(refusal(local, request_for("HEAD", "/health")) == 0);
    CHECK(refusal(local, request_for("DELETE", "/health")) == 405);
    CHECK(refusal(local, request_for("POST", "/v1/completions")) == 0);
    CHECK(refusal(local, request_for("POST", "/health")) == 405);
}

TEST_CASE("a server with a token refuses strangers, except on its pages for all") {
    CHECK(refusal(secret, request_for("GET", "/health")) == 0);
    CHECK(refusal(secret, request_for("GET", "/")) == 0);
    HttpRequest models = request_for("GET", "/v1/models");
    for (const char* wrong : {"", "abc", "Bearer", "Bearer ", "Bearer ab", "Bearer abd",
                              "Bearer ABC", "Bearer abcd", "Basic abc", "Bearerabc"}) {
        CAPTURE(wrong);
        models.authorization = wrong;
        CHECK(refusal(secret, models) == 401);
    }
    for (const char* right : {"Bearer abc", "bearer abc", "BEARER  abc"}) {
        CAPTURE(right);
        models.authorization = right;
        CHECK(refusal(secret, models) == 0);
    }
}

TEST_CASE("a request becomes its answers, as far as they may wait") {
    Asked at;
    // Alone, a request may have more answers than may wait.
    CHECK(at.ask(R"("prompt":[[5,6],[7]],"n":2,"max_tokens":8,"seed":4)") == 0);
    CHECK(at.ask(R"("prompt":[5],"max_tokens":1)") == 429);
    std::vector<Answer> answers = at.new_answers();
    REQUIRE(answers.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(answers[i].index == i);
        CHECK(answers[i].sample == static_cast<std::int64_t>(i % 2));
        CHECK(answers[i].prompt_number == static_cast<std::int64_t>(i / 2));
        CHECK(answers[i].prompt.size() == (i < 2 ? 2 : 1));
        CHECK(answers[i].max_tokens == 8);
        CHECK(answers[i].sampling.seed == 4);
        CHECK(answers[i].deadline > std::chrono::steady_clock::now());
    }
    CHECK(at.ask(R"("prompt":[5],"max_tokens":1)") == 429);  // one is written, the others wait
    CHECK(at.new_answers().empty());
    answers.resize(2);
    CHECK(at.ask(R"("prompt":[5],"max_tokens":9)") == 0);
    CHECK(at.ask(R"("prompt":[5],"max_tokens":1)") == 429);
    CHECK(at.new_answers().size() == 1);
    CHECK(at.new_answers().empty());
}

TEST_CASE("a request that has waited too long has an error, unless its client has left") {
    Asked at;
    HttpRequest late = request_for("POST", "/v1/completions");
    late.body = R"({"prompt":[5],"max_tokens":1})";
    late.arrived -= std::chrono::seconds(601);
    at.client = std::make_shared<Client>();
    CHECK(at.post(late) == 503);
    CHECK(at.new_answers().empty());
    at.client = std::make_shared<Client>();
    at.client->left = true;
    CHECK(at.post(late) == 0);
    CHECK(contains(at.metrics.to_text(), "gptrain_disconnects_total 1\n"));
}

TEST_CASE("the server refuses prompts that do not fit, and other models") {
    Asked at;
    CHECK(at.ask(R"("prompt":[5],"max_tokens":10)") == 400);
    CHECK(contains(at.client->body, "there is room for 10 together"));
    CHECK(at.ask(R"("prompt":[40],"max_tokens":1)") == 400);
    CHECK(at.ask(R"("prompt":[5],"model":"other")") == 404);
    CHECK(at.ask(R"("prompt":[5],"model":"tiny","max_tokens":1)") == 0);
}

TEST_CASE("a server that stops answers nobody any more") {
    Asked at;
    CHECK(at.ask(R"("prompt":[5],"max_tokens":1)") == 0);
    CHECK(at.health() == R"(200 {"status":"ok"})");
    at.service.stop();
    CHECK(at.client->status == 503);
    CHECK(at.health() == R"(503 {"status":"stopping"})");
    CHECK(at.ask(R"("prompt":[5],"max_tokens":1)") == 503);
    CHECK(at.new_answers().empty());
}

TEST_CASE("a whole reply has a limited number of log-probabilities") {
    using namespace std::chrono_literals;
    ServeMetrics metrics;
    // 250 answers of 199 tokens, with 20 others each, are 2^20 - 3826 of them.
    Service service(served_codec(), nullptr,
                    {.model = {}, .token = {}, .positions = 300, .places = 1, .waiting = 256},
                    metrics);
    const auto status = [&](const std::string& members) {
        HttpRequest request;
        request.method = "POST";
        request.path = "/v1/completions";
        request.body = "{\"prompt\":[5,6],\"n\":250," + members + "}";
        const auto client = std::make_shared<Client>();
        service.answer(request, client);
        if (client->status == 400) CHECK(contains(client->body, "1048576 are given at once"));
        const bool taken = !service.new_answers(0ms).empty();
        CHECK(taken == (client->status != 400));
        return client->status;
    };
    CHECK(status(R"("max_tokens":199,"logprobs":20)") != 400);
    CHECK(status(R"("max_tokens":200,"logprobs":20)") == 400);
    CHECK(status(R"("max_tokens":197,"logprobs":20,"echo":true)") != 400);
    CHECK(status(R"("max_tokens":198,"logprobs":20,"echo":true)") == 400);
    CHECK(status(R"("max_tokens":200,"logprobs":20,"stream":true)") != 400);
    CHECK(status(R"("max_tokens":200)") != 400);
}

TEST_CASE("without a seed each prompt draws its own numbers") {
    using namespace std::chrono_literals;
    ServeMetrics metrics;
    Service service(served_codec(), nullptr, {.model = {}, .token = {}, .positions = 100}, metrics);
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.body = R"({"prompt":[[5],[5]],"n":2})";
    service.answer(request, std::make_shared<Client>());
    const std::vector<Answer> answers = service.new_answers(0ms);
    REQUIRE(answers.size() == 4);
    CHECK(answers[0].sampling.seed == answers[1].sampling.seed);
    CHECK(answers[0].sample != answers[1].sample);
    CHECK(answers[1].sampling.seed != answers[2].sampling.seed);
}

TEST_CASE("as many answers may be under way as have places or may wait") {
    using namespace std::chrono_literals;
    ServeMetrics metrics;
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.body = R"({"prompt":[5],"max_tokens":1})";
    for (const std::int64_t waiting : {0, 1}) {
        CAPTURE(waiting);
        Service service(
            served_codec(), nullptr,
            {.model = {}, .token = {}, .positions = 10, .places = 3, .waiting = waiting}, metrics);
        std::vector<std::shared_ptr<Client>> clients;
        const auto ask = [&] {
            clients.push_back(std::make_shared<Client>());
            service.answer(request, clients.back());
            return clients.back()->status;
        };
        for (std::int64_t i = 0; i < 3 + waiting; ++i)
            CHECK(ask() == 0);
        CHECK(ask() == 429);
        std::vector<Answer> answers = service.new_answers(0ms);
        CHECK(ask() == 429);
        answers.pop_back();
        CHECK(ask() == 0);
        CHECK(ask() == 429);
    }
}

}  // namespace gptrain::test
