// The contents of each step, and where answers end.
#include "serve/scheduler.h"

#include <cmath>
#include <limits>

#include "catch.h"
#include "served_ids.h"

namespace gptrain::test {
namespace {

/// Notes what it gets.
struct Client final : AnswerReader {
    void take(std::size_t, const AnswerPiece& piece) override {
        text += piece.text;
        new_tokens += piece.new_tokens;
        tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
        CHECK_FALSE(end);
        end = piece.end;
    }
    void give_up(int code, const std::string&) override { status = code; }
    bool gone() const override { return left || status != 0; }

    std::string text;
    std::int64_t new_tokens = 0;
    std::vector<TokenLogprob> tokens;
    std::optional<TextEnd> end;
    int status = 0;
    bool left = false;
};

Answer answer(const std::shared_ptr<Client>& client, std::vector<std::int32_t> prompt,
              std::int64_t max_tokens) {
    static std::int64_t prompts = 0;
    Answer wanted;
    wanted.prompt = std::make_shared<const std::vector<std::int32_t>>(std::move(prompt));
    wanted.prompt_number = prompts++;
    wanted.max_tokens = max_tokens;
    wanted.sampling.temperature = 0;
    wanted.reader = client;
    return wanted;
}

/// An answer that also wants log-probabilities of its prompt, with `top` alternatives for each
/// token.
Answer echo(const std::shared_ptr<Client>& client, std::vector<std::int32_t> prompt,
            std::int64_t max_tokens, std::int64_t top) {
    Answer wanted = answer(client, std::move(prompt), max_tokens);
    wanted.logprobs = top;
    wanted.prompt_logprobs = true;
    return wanted;
}

/// Logits that make `id` three times as likely as each other token.
std::vector<float> logits_for(std::int32_t id) {
    std::vector<float> logits(served_vocab);
    logits[static_cast<std::size_t>(id)] = std::log(3.0f);
    return logits;
}

bool is_step(const TextStep& step, std::int64_t place, std::int64_t before,
             const std::vector<std::int32_t>& tokens, std::int64_t logits) {
    return step.place == place && step.before == before && step.tokens == tokens &&
           step.logits == logits && !step.copied_from;
}

/// True if the step copies all but the last token of a prompt.
bool is_copy(TextStep step, std::int64_t from, std::int64_t place, std::int64_t before,
             std::int32_t token) {
    const bool copies = step.copied_from == from;
    step.copied_from.reset();
    return copies && is_step(step, place, before, {token}, 1);
}

/// Writes `ids` one after the other, alone.
void write(Scheduler& scheduler, const std::vector<std::int32_t>& ids) {
    for (const std::int32_t id : ids) {
        const auto steps = scheduler.next_steps();
        REQUIRE(steps.size() == 1);
        scheduler.take(0, logits_for(id));
    }
}

}  // namespace

TEST_CASE("a step has a token of each answer, then parts of prompts") {
    Scheduler scheduler(served_codec(), {.texts = 3, .positions = 16, .tokens = 6, .logits = 3});
    const auto a = std::make_shared<Client>();
    const auto others = std::make_shared<Client>();
    scheduler.add(answer(a, {1, 3, 4, 5}, 9));
    scheduler.add(answer(others, {11, 12, 13, 14, 15}, 9));
    scheduler.add(answer(others, {21, 22, 23, 24, 25, 26}, 9));
    scheduler.add(answer(others, {31}, 9));
    auto steps = scheduler.next_steps();
    CHECK(scheduler.running() == 3);
    CHECK(scheduler.waiting() == 1);
    REQUIRE(steps.size() == 2);
    CHECK(is_step(steps[0], 0, 0, {1, 3, 4, 5}, 1));
    CHECK(is_step(steps[1], 1, 0, {11, 12}, 0));
    scheduler.take(0, logits_for(6));
    CHECK(a->text == "6 ");

    steps = scheduler.next_steps();
    REQUIRE(steps.size() == 3);
    CHECK(is_step(steps[0], 0, 4, {6}, 1));
    CHECK(is_step(steps[1], 1, 2, {13, 14, 15}, 1));
    CHECK(is_step(steps[2], 2, 0, {21, 22}, 0));
    for (std::size_t i = 0; i < 2; ++i)
        scheduler.take(i, logits_for(7));

    // The place of a client that has gone is the next one's.
    a->left = true;
    steps = scheduler.next_steps();
    CHECK(scheduler.waiting() == 0);
    REQUIRE(steps.size() == 3);
    CHECK(is_step(steps[0], 1, 5, {7}, 1));
    CHECK(is_step(steps[1], 0, 0, {31}, 1));
    CHECK(is_step(steps[2], 2, 2, {23, 24, 25, 26}, 1));
    CHECK(scheduler.prompt_tokens() == 4 + 5 + 6 + 1);
    CHECK(scheduler.new_tokens() == 3);
}

TEST_CASE("a free place goes to the request that has the fewest") {
    Scheduler scheduler(served_codec(), {.texts = 2, .positions = 16, .tokens = 8, .logits = 2});
    const auto many = std::make_shared<Client>();
    const auto one = std::make_shared<Client>();
    const auto take_both = [&] {
        for (std::size_t i = 0; i < 2; ++i) {
            many->end.reset();  // of another answer
            scheduler.take(i, logits_for(5));
        }
    };
    for (std::int32_t i = 0; i < 4; ++i)
        scheduler.add(answer(many, {10 + i}, i == 1 ? 2 : 1));
    CHECK(scheduler.next_steps().size() == 2);
    scheduler.add(answer(one, {20}, 1));
    scheduler.add(answer(std::make_shared<Client>(), {30}, 1));
    CHECK(scheduler.waiting() == 4);
    take_both();
    auto steps = scheduler.next_steps();
    REQUIRE(steps.size() == 2);
    CHECK(is_step(steps[0], 1, 1, {5}, 1));
    CHECK(is_step(steps[1], 0, 0, {20}, 1));
    take_both();
    // No request has a place: the first request comes before the last.
    steps = scheduler.next_steps();
    REQUIRE(steps.size() == 2);
    CHECK(is_step(steps[0], 0, 0, {12}, 1));
    CHECK(is_step(steps[1], 1, 0, {30}, 1));
    take_both();
    CHECK(scheduler.waiting() == 1);
    many->left = true;
    CHECK(scheduler.next_steps().empty());
    CHECK(scheduler.waiting() == 0);
}

TEST_CASE("several answers to a prompt read it once") {
    Scheduler scheduler(served_codec(), {.texts = 3, .positions = 16, .tokens = 4, .logits = 3});
    const auto client = std::make_shared<Client>();
    const auto take = [&](std::size_t step) {
        client->end.reset();  // of another answer
        scheduler.take(step, logits_for(7));
    };
    Answer wanted = answer(client, {11, 12, 13, 14, 15, 16}, 2);
    for (std::int64_t i = 0; i < 5; ++i) {
        wanted.max_tokens = i == 0 ? 1 : 2;
        scheduler.add(wanted);
    }
    auto steps = scheduler.next_steps();
    REQUIRE(steps.size() == 1);
    CHECK(is_step(steps[0], 0, 0, {11, 12, 13, 14}, 0));
    steps = scheduler.next_steps();
    REQUIRE(steps.size() == 1);
    CHECK(is_step(steps[0], 0, 4, {15, 16}, 1));
    take(0);
    // The first one is over, but what it has read stays until the next one begins to read.
    steps = scheduler.next_steps();
    REQUIRE(steps.size() == 2);
    CHECK(is_copy(steps[0], 0, 1, 5, 16));
    CHECK(is_copy(steps[1], 0, 2, 5, 16));
    take(0);
    take(1);
    steps = scheduler.next_steps();
    REQUIRE(steps.size() == 3);
    CHECK(is_step(steps[0], 1, 6, {7}, 1));
    CHECK(is_step(steps[1], 2, 6, {7}, 1));
    CHECK(is_copy(steps[2], 1, 0, 5, 16));
}

TEST_CASE("answers with log-probabilities of the prompt, and other requests, read by themselves") {
    Scheduler scheduler(served_codec(), {.texts = 3, .positions = 16, .tokens = 9, .logits = 9});
    Answer first = echo(std::make_shared<Client>(), {11, 12, 13}, 2, 0);
    scheduler.add(first);
    scheduler.add(first);
    first.reader = std::make_shared<Client>();
    first.prompt_logprobs = false;
    scheduler.add(first);
    const auto steps = scheduler.next_steps();
    REQUIRE(steps.size() == 3);
    for (const TextStep& step : steps)
        CHECK(step.tokens.size() == 3);
}

TEST_CASE("short prompts are read before long ones, and the oldest at least with half of a step") {
    Scheduler scheduler(served_codec(), {.texts = 3, .positions = 16, .tokens = 8, .logits = 3});
    const auto client = std::make_shared<Client>();
    scheduler.add(answer(client, {1, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 1));
    scheduler.add(answer(client, {21, 22, 23, 24, 25, 26}, 1));
    scheduler.add(answer(client, {31, 32}, 1));
    auto steps = scheduler.next_steps();
    REQUIRE(steps.size() == 3);
    CHECK(is_step(steps[0], 2, 0, {31, 32}, 1));
    CHECK(is_step(steps[1], 1, 0, {21, 22}, 0));
    CHECK(is_step(steps[2], 0, 0, {1, 3, 4, 5}, 0));
    scheduler.take(0, logits_for(5));
    // The oldest prompt gets the room that the others leave.
    steps = scheduler.next_steps();
    REQUIRE(steps.size() == 2);
    CHECK(is_step(steps[0], 1, 2, {23, 24, 25, 26}, 1));
    CHECK(is_step(steps[1], 0, 4, {6, 7, 8, 9}, 0));
}

TEST_CASE("a long prompt holds up no answer that is being written") {
    Scheduler scheduler(served_codec(), {.texts = 2, .positions = 16, .tokens = 6, .logits = 2});
    const auto client = std::make_shared<Client>();
    scheduler.add(answer(client, {11, 12, 13, 14, 15, 16, 17, 18}, 1));
    scheduler.add(answer(client, {21}, 1));
    const auto steps = scheduler.next_steps();
    REQUIRE(steps.size() == 2);
    CHECK(is_step(steps[0], 1, 0, {21}, 1));
    CHECK(is_step(steps[1], 0, 0, {11, 12, 13, 14, 15}, 0));
}

TEST_CASE("a prompt's last token waits for a step that has room for its logits") {
    Scheduler scheduler(served_codec(), {.texts = 2, .positions = 16, .tokens = 8, .logits = 2});
    const auto client = std::make_shared<Client>();
    scheduler.add(echo(client, {5, 6, 7}, 1, 0));
    scheduler.add(answer(client, {11, 12, 13}, 1));
    const auto steps = scheduler.next_steps();
    REQUIRE(steps.size() == 2);
    CHECK(is_step(steps[0], 0, 0, {5, 6}, 2));
    CHECK(is_step(steps[1], 1, 0, {11, 12}, 0));
}

TEST_CASE("an answer ends at its tokens, at the model's end, at a stop text and without room") {
    Scheduler scheduler(served_codec(), {.texts = 1, .positions = 6, .tokens = 6, .logits = 1});
    const auto client = std::make_shared<Client>();
    SECTION("max_tokens") {
        scheduler.add(answer(client, {1}, 2));
        write(scheduler, {7, 8});
        CHECK(client->end == TextEnd::max_tokens);
        CHECK(client->text == "7 8 ");
    }
    SECTION("end of a text") {
        scheduler.add(answer(client, {1}, 4));
        write(scheduler, {7, 2});
        CHECK(client->end == TextEnd::end_token);
        CHECK(client->text == "7 ");
        CHECK(client->new_tokens == 1);
    }
    SECTION("stop text") {
        Answer stopped = answer(client, {1}, 4);
        stopped.stop = {"8 9"};
        scheduler.add(stopped);
        write(scheduler, {7, 8});
        CHECK(client->text == "7 ");  // the rest may be the stop text
        write(scheduler, {9});
        CHECK(client->end == TextEnd::stop_text);
        CHECK(client->text == "7 ");
    }
    SECTION("last position") {
        scheduler.add(answer(client, {1, 3, 4, 5}, 100));
        write(scheduler, {7, 8});
        CHECK(client->end == TextEnd::last_position);
        CHECK(client->text == "7 8 ");
    }
    SECTION("nothing wanted") {
        scheduler.add(answer(client, {1, 3}, 0));
        CHECK(scheduler.next_steps().empty());
        CHECK(client->end == TextEnd::max_tokens);
    }
    CHECK(client->end);
    CHECK(scheduler.running() == 0);
    CHECK(scheduler.next_steps().empty());
}

TEST_CASE("log-probabilities are of the model's own distribution, the prompt's first") {
    Scheduler scheduler(served_codec(), {.texts = 1, .positions = 16, .tokens = 8, .logits = 2});
    const auto client = std::make_shared<Client>();
    Answer cool = echo(client, {5, 6, 7}, 1, 2);
    cool.sampling.temperature = 1e-3;
    scheduler.add(cool);
    CHECK(scheduler.next_steps().at(0).logits == 2);
    scheduler.take(0, logits_for(6));
    scheduler.take(0, logits_for(30));
    CHECK(scheduler.next_steps().at(0).tokens == std::vector<std::int32_t>{7});
    scheduler.take(0, logits_for(8));
    CHECK(client->end == TextEnd::max_tokens);
    REQUIRE(client->tokens.size() == 4);
    const double likely = std::log(3.0 / (served_vocab + 2));
    const double other = std::log(1.0 / (served_vocab + 2));
    const auto check = [](const TokenLogprob& token, std::int32_t id, double logprob) {
        CHECK(token.id == id);
        CHECK(*token.logprob == Approx(logprob));
    };
    CHECK(client->tokens[0].id == 5);
    CHECK_FALSE(client->tokens[0].logprob);
    check(client->tokens[1], 6, likely);
    check(client->tokens[2], 7, other);
    check(client->tokens[3], 8, likely);
    const auto& top = client->tokens[2].top;
    REQUIRE(top.size() == 2);
    CHECK(top[0].first == 30);
    CHECK(top[0].second == Approx(likely));
    CHECK(top[1].first == 0);
    CHECK(top[1].second == Approx(other));
}

TEST_CASE("a prompt whose log-probabilities are all that is wanted is read to its last token") {
    Scheduler scheduler(served_codec(), {.texts = 1, .positions = 16, .tokens = 8, .logits = 4});
    const auto client = std::make_shared<Client>();
    scheduler.add(echo(client, {5, 6, 7}, 0, 0));
    CHECK(scheduler.next_steps().at(0).logits == 3);
    scheduler.take(0, logits_for(6));
    CHECK_FALSE(client->end);
    scheduler.take(0, logits_for(7));
    CHECK(client->end == TextEnd::max_tokens);
    CHECK(client->tokens.size() == 3);
    scheduler.take(0, logits_for(8));  // nobody wants it any more
    CHECK(client->new_tokens == 0);
    CHECK(scheduler.running() == 0);
}

TEST_CASE("one answer's fault, lateness or loss leaves the others alone") {
    Scheduler scheduler(served_codec(), {.texts = 2, .positions = 16, .tokens = 8, .logits = 2});
    const auto faulty = std::make_shared<Client>();
    const auto good = std::make_shared<Client>();
    const auto late = std::make_shared<Client>();
    const auto waits = std::make_shared<Client>();
    scheduler.add(answer(faulty, {5}, 4));
    scheduler.add(answer(good, {6}, 4));
    Answer too_late = answer(late, {7}, 4);
    too_late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
    scheduler.add(too_late);
    scheduler.add(answer(waits, {8}, 4));
    CHECK(scheduler.next_steps().size() == 2);
    CHECK(late->status == 503);
    scheduler.take(0, std::vector<float>(served_vocab, std::numeric_limits<float>::quiet_NaN()));
    scheduler.take(1, logits_for(9));
    CHECK(faulty->status == 500);
    CHECK(good->text == "9 ");
    CHECK(scheduler.running() == 1);
    scheduler.drop_waiting();
    CHECK(waits->status == 503);
    CHECK(scheduler.next_steps().size() == 1);
}

}  // namespace gptrain::test
