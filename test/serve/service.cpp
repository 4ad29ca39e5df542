// Who may ask, and what is asked for.
#include "serve/service.h"

#include "catch.h"
#include "client.h"
#include "served_ids.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

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

/// The status with which a request is refused before its body is read; 0 if the body is read.
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
        CHECK(answers[i].prompt->size() == (i < 2 ? 2 : 1));
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
