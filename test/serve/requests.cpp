// The bodies of requests, errors, and the message that ranks send each other.
#include <chrono>

#include "catch.h"
#include "serve/http.h"
#include "serve/request.h"
#include "serve/step_message.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

CompletionRequest completion(const std::string& members) {
    return parse_completion("{" + members + "}");
}
CompletionRequest chat(const std::string& members) {
    return parse_chat(R"({"messages":[{"role":"user","content":"a"}])" + members + "}");
}
std::string refusal(const std::string& members) {
    return message_of(ExitCode::bad_input, [&] { completion(members); });
}

/// `count` times the element, as a JSON array.
std::string list_of(const std::string& element, int count) {
    std::string list = "[";
    for (int i = 0; i < count; ++i)
        list += (i == 0 ? "" : ",") + element;
    return list + "]";
}

}  // namespace

TEST_CASE("a completion has the values that OpenAI's API gives to what is left out") {
    const CompletionRequest request = completion(R"("prompt":"a","n":null,"stop":null)");
    REQUIRE(request.prompts.size() == 1);
    CHECK(std::get<std::string>(request.prompts[0]) == "a");
    CHECK(request.max_tokens == 16);
    CHECK(request.choices == 1);
    CHECK(request.sampling.temperature == 1);
    CHECK(request.stop.empty());
    CHECK_FALSE(request.logprobs);
    CHECK_FALSE(request.has_seed);
    CHECK_FALSE(request.stream);
    CHECK_FALSE(request.is_chat());
    // A chat answer may be as long as there is room.
    CHECK_FALSE(chat("").max_tokens);
    CHECK(chat("").is_chat());
}

TEST_CASE("many null members take little time") {
    std::string members = R"("prompt":"a")";
    for (int i = 0; i < 80000; ++i)
        members += ",\"k" + std::to_string(i) + "\":null";
    const auto begin = std::chrono::steady_clock::now();
    CHECK(refusal(members) == "");
    // Removed one by one they take a minute.
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}

TEST_CASE("prompts are a text, ids, or lists of either") {
    const auto ids = [](const Prompt& prompt) {
        return std::get<std::vector<std::int32_t>>(prompt);
    };
    CHECK(ids(completion(R"("prompt":[5,2147483647])").prompts.at(0)) ==
          std::vector<std::int32_t>{5, INT32_MAX});
    const auto both = completion(R"("prompt":["a",[5],[]])").prompts;
    REQUIRE(both.size() == 3);
    CHECK(std::get<std::string>(both[0]) == "a");
    CHECK(ids(both[1]) == std::vector<std::int32_t>{5});
    CHECK(ids(both[2]).empty());
    for (const char* id : {"2147483648", "-1", "1.5", "18446744073709551615", "\"5\""}) {
        CAPTURE(id);
        CHECK(refusal("\"prompt\":[5," + std::string(id) + "]") ==
              "'prompt' has an element that is not a token id");
    }
    for (const char* prompt : {"[]", "7", "{}", "[true]", "[\"a\",7]"}) {
        CAPTURE(prompt);
        CHECK(refusal("\"prompt\":" + std::string(prompt)) != "");
    }
}

TEST_CASE("a request is refused above each limit, and not at it") {
    const auto both = [&](const std::string& key, const std::string& most,
                          const std::string& above) {
        CAPTURE(key);
        const std::string prompt = R"("prompt":"a",")";
        CHECK(refusal(prompt + key + "\":" + most) == "");
        CHECK(contains(refusal(prompt + key + "\":" + above), "'" + key + "' must"));
    };
    both("max_tokens", "16777216", "16777217");
    both("max_tokens", "0", "-1");
    both("n", "256", "257");
    both("n", "1", "0");
    both("logprobs", "20", "21");
    both("stop", list_of("\"x\"", 16), list_of("\"x\"", 17));
    both("stop", "\"x\"", "\"\"");
    const std::string half(2048, 'x');
    both("stop", list_of("\"" + half + "\"", 2), "[\"" + half + "\",\"" + half + "\",\"x\"]");
    CHECK(refusal("\"n\":128,\"prompt\":" + list_of("\"a\"", 2)) == "");
    CHECK(refusal("\"n\":128,\"prompt\":" + list_of("\"a\"", 3)) ==
          "prompts x 'n' must be at most 256");
}

TEST_CASE("a seed has 64 bits, with or without a sign") {
    const auto seed = [](const std::string& given) {
        const CompletionRequest request = completion(R"("prompt":"a","seed":)" + given);
        CHECK(request.has_seed);
        return request.sampling.seed;
    };
    CHECK(seed("7") == 7);
    CHECK(seed("18446744073709551615") == UINT64_MAX);
    CHECK(seed("-1") == UINT64_MAX);
    CHECK(contains(refusal(R"("prompt":"a","seed":1.5)"), "'seed' must be an integer"));
}

TEST_CASE("keys that gptrain lacks may only ask for nothing") {
    CHECK(refusal(R"("prompt":"a","n":2,"best_of":2,"suffix":"","logit_bias":{})") == "");
    CHECK(refusal(R"("prompt":"a","presence_penalty":0,"frequency_penalty":0.0)") == "");
    CHECK(contains(refusal(R"("prompt":"a","n":2,"best_of":3)"), "'best_of' is not supported"));
    CHECK(contains(refusal(R"("prompt":"a","suffix":"b")"), "'suffix' is not supported"));
    CHECK(contains(refusal(R"("prompt":"a","logit_bias":{"5":1})"), "'logit_bias'"));
    CHECK(contains(refusal(R"("prompt":"a","presence_penalty":0.1)"), "repetition_penalty"));
    CHECK(contains(refusal(R"("prompt":"a","max_token":1)"), "'max_token'"));
    CHECK_FALSE(completion(R"("prompt":"a","logprobs":false)").logprobs);
    CHECK(contains(refusal(R"("prompt":"a","logprobs":true)"), "'logprobs' must be an integer"));
    chat(R"(,"tools":[],"tool_choice":"auto","parallel_tool_calls":false,"service_tier":"auto")");
    chat(
        R"(,"tools":[],"tool_choice":"none","service_tier":"default","store":false,"metadata":{},"modalities":["text"])");
    for (const char* asks :
         {R"("tools":[{}])", R"("tool_choice":"required")", R"("store":true)",
          R"("service_tier":"flex")", R"("metadata":{"a":"b"})", R"("modalities":["audio"])"}) {
        CAPTURE(asks);
        CHECK(contains(message_of(ExitCode::bad_input, [&] { chat("," + std::string(asks)); }),
                       "is not supported; leave it out"));
    }
}

TEST_CASE("a chat request has text only, and its newer names of keys") {
    CHECK(chat(R"(,"max_tokens":3)").max_tokens == 3);
    CHECK(chat(R"(,"max_tokens":3,"max_completion_tokens":5)").max_tokens == 5);
    CHECK(chat(R"(,"logprobs":true,"top_logprobs":4)").logprobs == 4);
    CHECK(chat(R"(,"logprobs":true)").logprobs == 0);
    CHECK_FALSE(chat(R"(,"logprobs":false,"top_logprobs":4)").logprobs);
    CHECK(chat(R"(,"stream":true,"stream_options":{"include_usage":true})").include_usage);
    const CompletionRequest asked = chat(R"(,"chat_template_kwargs":{"enable_thinking":false})");
    CHECK(to_line(asked.template_kwargs) == R"({"enable_thinking":false})");
    CHECK_THROWS_AS(chat(R"(,"chat_template_kwargs":[])"), Error);
    const CompletionRequest parts =
        parse_chat(R"({"messages":[{"role":"user","name":"x","content":)"
                   R"([{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})");
    CHECK(parts.template_kwargs.empty());
    CHECK(to_line(parts.messages) == R"([{"role":"user","content":"ab"}])");
    // As clients send back what they got.
    parse_chat(R"({"messages":[{"role":"assistant","content":"a","refusal":null,)"
               R"("annotations":[],"tool_calls":[]}]})");
    const auto refused = [](const char* body) {
        return message_of(ExitCode::bad_input, [&] { parse_chat(body); });
    };
    CHECK(refused(R"({"messages":[{"role":"tool","content":"a","tool_call_id":"b"}]})") ==
          "a message: unknown key 'tool_call_id'");
    CHECK(refused(R"({"messages":[{"role":"assistant","content":"a","tool_calls":[{}]}]})") ==
          "'tool_calls' is not supported; leave it out");
    CHECK(refused(R"({"messages":["a"]})") == "a message must be a JSON object");
    CHECK(refused(R"({"messages":[]})") == "'messages' must not be empty");
    CHECK(refused(R"({"messages":[{"role":"user"}]})") == "a message has no 'content'");
    CHECK(refused(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})") ==
          "a message's 'content' must be text only");
}

TEST_CASE("an error has the form of OpenAI's, and quotes at most a part of a request") {
    const HttpReply mine = http_error(404, "no \"model\"");
    CHECK(mine.status == 404);
    CHECK(mine.type == "application/json");
    CHECK(mine.body == R"({"error":{"message":"no \"model\"","type":"invalid_request_error",)"
                       R"("param":null,"code":404}})");
    CHECK(contains(http_error(500, "x").body, R"("type":"server_error")"));
    CHECK(http_error(400, std::string(5000, 'x')).body.size() < 1100);
}

TEST_CASE("all ranks get the step that rank 0 sends") {
    const StepMessage sent = {
        .stop = false,
        .steps = {{.place = 3, .before = 1000000, .tokens = {1, INT32_MAX}, .logits = 2},
                  {.place = 0, .before = 0, .tokens = {}, .logits = 0, .copied_from = 5}}};
    const std::string bytes = encode_step(sent);
    const StepMessage got = decode_step(bytes);
    CHECK_FALSE(got.stop);
    REQUIRE(got.steps.size() == 2);
    CHECK(got.steps[0].place == 3);
    CHECK(got.steps[0].before == 1000000);
    CHECK(got.steps[0].tokens == sent.steps[0].tokens);
    CHECK(got.steps[0].logits == 2);
    CHECK(got.steps[1].tokens.empty());
    CHECK_FALSE(got.steps[0].copied_from);
    CHECK(got.steps[1].copied_from == 5);
    CHECK(decode_step(encode_step({.stop = true, .steps = {}})).stop);
    CHECK(decode_step(encode_step({})).steps.empty());
    // One that was cut: within a step, and within its tokens.
    CHECK_THROWS_AS(decode_step(bytes.substr(0, bytes.size() - 1)), Error);
    CHECK_THROWS_AS(decode_step(bytes.substr(0, 1 + 5 * 8 + 4)), Error);
    CHECK_THROWS_AS(decode_step(""), Error);
}

}  // namespace gptrain::test
