#include "infer/sampler.h"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "catch.h"

using gptrain::DrawPlace;
using gptrain::Json;
using gptrain::sample_token;
using gptrain::SamplingOptions;

namespace {

constexpr std::int64_t draws = 20000;

/// How often each id is drawn at positions 0 to draws - 1.
std::vector<std::int64_t> counts_of(const std::vector<float>& logits,
                                    const SamplingOptions& options) {
    std::vector<std::int64_t> counts(logits.size());
    for (std::int64_t position = 0; position < draws; ++position)
        ++counts[static_cast<std::size_t>(sample_token(logits, options, {position}))];
    return counts;
}

/// The ids that were drawn at least once.
std::set<std::size_t> drawn(const std::vector<std::int64_t>& counts) {
    std::set<std::size_t> ids;
    for (std::size_t id = 0; id < counts.size(); ++id)
        if (counts[id] > 0) ids.insert(id);
    return ids;
}

// Probabilities 0.5, 0.25, 0.125 and 0.125, not in the order of the ids.
const std::vector<float> logits = {std::log(0.125f), std::log(0.5f), std::log(0.25f),
                                   std::log(0.125f)};

}  // namespace

TEST_CASE("temperature 0 takes the likeliest token, of equal ones the smallest id") {
    const SamplingOptions greedy = {.temperature = 0};
    CHECK(sample_token(logits, greedy, {7}) == 1);
    CHECK(sample_token(std::vector<float>{1, 3, 3}, greedy, {0}) == 1);
}

TEST_CASE("tokens are drawn with their probabilities") {
    const std::vector<double> expected = {0.125, 0.5, 0.25, 0.125};
    const auto counts = counts_of(logits, {});
    for (std::size_t id = 0; id < expected.size(); ++id) {
        const double p = expected[id];
        const double sigma = std::sqrt(p * (1 - p) * draws);
        CHECK(std::abs(static_cast<double>(counts[id]) - p * draws) < 5 * sigma);
    }
}

TEST_CASE("temperature divides the logits") {
    // At temperature 0.5 the probabilities are squared: 16, 4, 1 and 1 parts of 22.
    const auto counts = counts_of(logits, {.temperature = 0.5});
    const double p = 16.0 / 22;
    CHECK(std::abs(static_cast<double>(counts[1]) - p * draws) <
          5 * std::sqrt(p * (1 - p) * draws));
}

TEST_CASE("top_k and top_p keep the likeliest tokens") {
    CHECK(drawn(counts_of(logits, {.top_k = 2})) == std::set<std::size_t>{1, 2});
    CHECK(drawn(counts_of(logits, {.top_k = 9})).size() == 4);
    // 0.5 + 0.25 reaches 0.7, so the third one is excluded; among equals the smaller id comes
    // first.
    CHECK(drawn(counts_of(logits, {.top_p = 0.7})) == std::set<std::size_t>{1, 2});
    CHECK(drawn(counts_of(logits, {.top_p = 0.8})) == std::set<std::size_t>{0, 1, 2});
    // The likeliest one is always kept.
    CHECK(drawn(counts_of(logits, {.top_p = 0.01})) == std::set<std::size_t>{1});
}

TEST_CASE("a draw depends on seed and position alone") {
    const SamplingOptions options = {.seed = 5};
    std::vector<std::int32_t> first;
    for (std::int64_t position = 0; position < 64; ++position)
        first.push_back(sample_token(logits, options, {position}));
    std::vector<std::int32_t> other_seed;
    for (std::int64_t position = 63; position >= 0; --position) {
        CHECK(sample_token(logits, options, {position}) ==
              first[static_cast<std::size_t>(position)]);
        other_seed.push_back(sample_token(logits, {.seed = 6}, {63 - position}));
    }
    CHECK(other_seed != first);
    CHECK(std::set<std::int32_t>(first.begin(), first.end()).size() > 1);
}

TEST_CASE("a logit that is not a number is an error") {
    const std::vector<float> broken = {0, std::numeric_limits<float>::quiet_NaN()};
    CHECK_THROWS_AS(sample_token(broken, {}, {}), gptrain::Error);
}

TEST_CASE("samples and turns have draws of their own") {
    std::set<std::vector<std::int32_t>> drawn_texts;
    for (const DrawPlace start : {DrawPlace{}, DrawPlace{.sample = 1}, DrawPlace{.sample = 2},
                                  DrawPlace{.turn = 1}, DrawPlace{.sample = 1, .turn = 1}}) {
        std::vector<std::int32_t> text;
        DrawPlace place = start;
        for (; place.position < 64; ++place.position)
            text.push_back(sample_token(logits, {}, place));
        drawn_texts.insert(text);
    }
    CHECK(drawn_texts.size() == 5);
}

TEST_CASE("the tokens that can be drawn are those of transformers") {
    const std::filesystem::path file = std::filesystem::path(GPTRAIN_TEST_DATA) / "sampling.json";
    const Json cases = gptrain::parse_json(gptrain::read_file(file, 1 << 20), "sampling.json");
    REQUIRE(cases.size() >= 20);
    for (const Json& one : cases) {
        CAPTURE(one.at("options").dump());
        auto values = one.at("logits").get<std::vector<float>>();
        const Json& given = one.at("options");
        gptrain::penalize(values, one.at("context").get<std::vector<std::int32_t>>(),
                          given.value("repetition_penalty", 1.0));
        const SamplingOptions options = {.temperature = given.value("temperature", 1.0),
                                         .top_k = given.value("top_k", std::int64_t{0}),
                                         .top_p = given.value("top_p", 1.0),
                                         .min_p = given.value("min_p", 0.0)};
        double total = 0;
        std::vector<double> probabilities(values.size());
        const auto chances = gptrain::token_chances(values, options);
        for (const auto& chance : chances)
            total += chance.weight;
        for (const auto& chance : chances)
            probabilities[static_cast<std::size_t>(chance.id)] = chance.weight / total;
        const auto expected = one.at("probabilities").get<std::vector<double>>();
        for (std::size_t id = 0; id < expected.size(); ++id) {
            CHECK((probabilities[id] > 0) == (expected[id] > 0));
            CHECK(std::abs(probabilities[id] - expected[id]) < 1e-6);
        }
    }
}
