#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/json.h"
#include "catch.h"
#include "tasks/clean_text.h"
#include "tasks/load_task.h"
#include "tasks/task_documents.h"
#include "tasks/task_metrics.h"
#include "tasks/task_requests.h"
#include "tasks/written_text.h"

using namespace gptrain;

namespace {

const std::filesystem::path folder = GPTRAIN_TEST_DATA;

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, const std::string& text) {
    std::vector<std::int32_t> ids;
    tokenizer.encode(text, ids);
    return ids;
}

TaskItem question(const std::string& prompt, const std::string& choice) {
    TaskItem item;
    item.place = "data:1";
    item.prompts = {prompt};
    item.choices = {choice};
    return item;
}

std::vector<std::int32_t> tail(const std::vector<std::int32_t>& ids, std::int64_t count) {
    return {ids.end() - count, ids.end()};
}

ItemResult shares(double value, double weight) {
    return {.shares = {{value, weight}}, .details = {}};
}

}  // namespace

TEST_CASE("texts are cleaned as lm-evaluation-harness cleans them") {
    std::ifstream lines(folder / "clean.jsonl");
    std::string line;
    int texts = 0;
    for (; std::getline(lines, line); ++texts) {
        const Json expected = parse_json(line, "clean.jsonl");
        const bool hellaswag = expected.at("cleaning") == "hellaswag";
        CAPTURE(line);
        CHECK(clean_text(expected.at("text").get<std::string>(),
                         hellaswag ? TextCleaning::hellaswag : TextCleaning::wikitext) ==
              expected.at("clean").get<std::string>());
    }
    CHECK(texts == 300);
    CHECK(clean_text(" [a] ", TextCleaning::none) == " [a] ");
}

TEST_CASE("the pages of WikiText begin at their titles") {
    using Pages = std::vector<std::string>;
    CHECK(wikitext_pages(" \n = A = \n a\n = = B = = \n b\n \n = C = \n c \n") ==
          Pages{" = A = \n a\n = = B = = \n b\n ", " = C = \n c \n"});
    CHECK(wikitext_pages("x\n= A =") == Pages{"x", "= A ="});
    CHECK(wikitext_pages("").empty());
}

TEST_CASE("the documents of a Parquet file are those of its rows as JSON lines") {
    const auto rows = folder / "../parquet";
    const auto expected = read_task_documents({.path = rows / "rows.jsonl"}, std::nullopt);
    const auto documents =
        read_task_documents({.path = rows / "files/plain-1.parquet"}, std::nullopt);
    REQUIRE(documents.size() == expected.size());
    for (std::size_t i = 0; i < documents.size(); ++i) {
        CHECK(documents[i].fields == expected[i].fields);
        CHECK(documents[i].place == text((rows / "files/plain-1.parquet").string(), ": row ", i));
    }
    CHECK(read_task_documents({.path = rows / "files/plain-1.parquet"}, 3).size() == 3);
}

TEST_CASE("all tasks of the program can be read") {
    CHECK(task_names().size() == 9);
    for (const std::string_view name : task_names())
        CHECK_NOTHROW(load_tasks(std::vector{std::string(name)}, "--task"));
}

TEST_CASE("a written text ends where the model, a stop text or a limit ends it") {
    const Tokenizer tokenizer(folder / "model" / "tokenizer.json");
    const std::vector<std::int32_t> ids = ids_of(tokenizer, "and the earth was without form");
    REQUIRE(ids.size() >= 6);
    const std::size_t given = 2;
    TaskSpec spec;
    spec.stop = {{"never"}};
    spec.max_tokens = 100;
    EndTokens ends;
    // The text written of the ids after the first two, and how many of them are taken.
    const auto write = [&](std::int64_t most_tokens) {
        const WritingRules rules = {tokenizer, ends, tokenizer.vocab_size(), most_tokens};
        const WriteRequest request = {{ids.begin(), ids.begin() + given}, &spec};
        WrittenText text(request, rules);
        std::size_t taken = given;
        while (!text.has_ended() && taken < ids.size())
            text.push(ids[taken++]);
        return std::pair(text.finish(), taken - given);
    };
    const auto decoded = [&](std::size_t count) {
        return tokenizer.decode(std::span(ids).subspan(given, count));
    };
    const std::size_t all = ids.size() - given;
    CHECK(write(100) == std::pair(decoded(all), all));
    CHECK(write(given + 3) == std::pair(decoded(3), std::size_t{3}));
    CHECK(write(given).second == 0);
    spec.max_tokens = 2;
    CHECK(write(100) == std::pair(decoded(2), std::size_t{2}));
    spec.max_tokens = 100;
    ends.add(ids[given + 1]);
    CHECK(write(100) == std::pair(decoded(1), std::size_t{2}));
    ends = {};
    const std::string whole = decoded(all);
    spec.stop = {{whole.substr(3, 2)}};
    CHECK(write(100).first == whole.substr(0, whole.find(whole.substr(3, 2))));
    CHECK(write(100).second < all);
}

TEST_CASE("a generation_config.json names the tokens that end texts") {
    const auto of = [](const Json& value) {
        EndTokens ends;
        ends.add_generation_config({{"eos_token_id", value}}, "config", 10);
        return ends;
    };
    CHECK(of(3).contains(3));
    CHECK_FALSE(of(3).contains(4));
    CHECK(of({3, 4, 10, -1}).contains(4));
    CHECK_FALSE(of({3, 10}).contains(10));
    CHECK(of({3, 4}).first() == 3);
    CHECK_FALSE(of(nullptr).first());
    CHECK_THROWS_AS(of("3"), Error);
    EndTokens none;
    none.add_generation_config(Json::object(), "config", 10);
    CHECK_FALSE(none.first());
}

TEST_CASE("a text is divided where the tokens of its context end") {
    const Tokenizer tokenizer(folder / "model" / "tokenizer.json");
    TaskEncoder encoder(tokenizer, 8);
    const auto one = [&](const std::string& prompt, const std::string& choice) {
        const auto requests = encoder.requests(question(prompt, choice), TaskKind::multiple_choice);
        REQUIRE(requests.size() == 1);
        return requests[0];
    };
    const std::vector<std::int32_t> whole = ids_of(tokenizer, "deep light");
    const ScoreRequest plain = one("deep", "light");
    CHECK(plain.ids == whole);
    CHECK(plain.scored == std::ssize(whole) - std::ssize(ids_of(tokenizer, "deep")));
    // Spaces at the end of the context belong to the scored text.
    CHECK(one("deep \n", "light").scored ==
          std::ssize(ids_of(tokenizer, "deep \n light")) - std::ssize(ids_of(tokenizer, "deep")));
    // Without a context the tokenizer's begin of a text stands before it.
    const ScoreRequest alone = one("", "light");
    CHECK(alone.ids.front() == *tokenizer.eos_id());
    CHECK(alone.scored == std::ssize(alone.ids) - 1);
    CHECK(one("<|endoftext|>", "light").ids == alone.ids);
    CHECK(encoder.cut() == 0);
    // Too long a text loses its beginning.
    const std::string many = "the earth was without form void darkness upon the deep";
    const ScoreRequest cut = one(many, "light");
    CHECK(cut.ids == tail(ids_of(tokenizer, many + " light"), 9));
    CHECK(encoder.cut() == 1);
    CHECK_THROWS_WITH(one("deep", many + many),
                      test::contains_text("data:1: ") && test::contains_text("8 positions"));
}

TEST_CASE("windows of a text score each token once") {
    const Tokenizer tokenizer(folder / "model" / "tokenizer.json");
    TaskItem item;
    item.text = "the earth was without form void darkness upon the deep and light was there";
    const std::vector<std::int32_t> ids = ids_of(tokenizer, item.text);
    for (const std::int64_t length : {std::int64_t{1}, std::int64_t{4}, std::int64_t{5},
                                      static_cast<std::int64_t>(std::ssize(ids))}) {
        TaskEncoder encoder(tokenizer, length);
        std::vector<std::int32_t> scored;
        for (const ScoreRequest& window : encoder.requests(item, TaskKind::perplexity)) {
            const auto own = tail(window.ids, window.scored);
            scored.insert(scored.end(), own.begin(), own.end());
            CHECK(std::ssize(window.ids) == length + 1);
        }
        CHECK(scored == ids);
    }
}

TEST_CASE("the last word begins at the last blank") {
    CHECK(last_word_of("a b c").context == "a b");
    CHECK(last_word_of("a b c").word == " c");
    CHECK(last_word_of("a ").word == " ");
    CHECK(last_word_of("abc").context.empty());
    CHECK(last_word_of("abc").word == "abc");
}

TEST_CASE("a last word is judged by all of its tokens and by its last one") {
    TaskSpec spec;
    spec.kind = TaskKind::last_word;
    const auto judged = [&](bool first, bool last) {
        const std::vector<TokenScores> scores = {{{-1, first}, {-0.5, last}}};
        return judge_scores(spec, {}, scores).shares;
    };
    for (const bool first : {false, true}) {
        for (const bool last : {false, true}) {
            const std::vector<MetricShare> shares = judged(first, last);
            CHECK(shares[0].value == (first && last ? 1 : 0));
            CHECK(shares[1].value == (last ? 1 : 0));
            CHECK(shares[2].value == -1.5);
        }
    }
}

TEST_CASE("perplexities divide the log-likelihood of a text by its words, bytes and tokens") {
    TaskSpec spec;
    spec.kind = TaskKind::perplexity;
    TaskItem item;
    // Python: len(re.split(r"\s+", x)) is 5, len(x.encode()) 11, len(x.strip().split(" ")) 4.
    item.original = " a\u00e9 b  ef ";
    const std::vector<TokenScores> windows = {{{-1, true}, {-2, false}}, {{-4, false}}};
    const std::vector<MetricShare> shares = judge_scores(spec, item, windows).shares;
    const std::vector<MetricShare> expected = {{-7, 5}, {-7, 11}, {-7, 11}, {-7, 3}, {-6, 3}};
    REQUIRE(shares.size() == expected.size());
    for (std::size_t i = 0; i < shares.size(); ++i) {
        CAPTURE(i);
        CHECK(shares[i].value == expected[i].value);
        CHECK(shares[i].weight == expected[i].weight);
    }
}

TEST_CASE("metrics have their standard errors") {
    const std::vector<std::string_view> acc = {"acc"};
    const std::vector<ItemResult> hits = {shares(1, 1), shares(0, 1), shares(0, 1), shares(1, 1)};
    const Metric mean = summarize(acc, hits).front();
    CHECK(mean.value == 0.5);
    CHECK(mean.standard_error == Approx(std::sqrt(1.0 / 3) / 2));
    CHECK(std::isnan(summarize(acc, std::vector{shares(1, 1)}).front().standard_error));
    // The standard error of a ratio: every document has the same ratio, so nothing varies.
    const std::vector<ItemResult> texts = {shares(-6, 3), shares(-2, 1)};
    const std::vector<std::string_view> perplexity = {"word_perplexity"};
    const Metric same = summarize(perplexity, texts).front();
    CHECK(same.value == Approx(std::exp(2)));
    CHECK(same.standard_error == Approx(0).margin(1e-12));
    const std::vector<std::string_view> bits = {"bits_per_byte"};
    CHECK(summarize(bits, texts).front().value == Approx(2 / std::log(2)));
    const Metric varied = summarize(perplexity, std::vector{shares(-6, 3), shares(-6, 1)}).front();
    CHECK(varied.value == Approx(std::exp(3)));
    // Both documents are 3 away from 3 nats a word: sqrt(2 (9 + 9)) / 4.
    CHECK(varied.standard_error == Approx(std::exp(3) * 1.5));
}

TEST_CASE("the last number of two texts decides where a task says so") {
    TaskSpec spec;
    spec.kind = TaskKind::exact_match;
    spec.match = AnswerMatch::number;
    TaskItem item;
    const auto equal = [&](const std::string& written, const std::string& target) {
        item.target = target;
        return judge_text(spec, item, written).shares.front().value == 1;
    };
    CHECK(equal("it costs $1,234.50.", "#### 1234.5"));
    CHECK(equal("2 + 2 = 4", "4"));
    CHECK(equal("-3 apples", "-3.0"));
    CHECK_FALSE(equal("3 apples", "-3"));
    CHECK_FALSE(equal("4 or 5", "4"));
    CHECK_FALSE(equal("none", "4"));
    CHECK_FALSE(equal("none", "unknown"));
}
