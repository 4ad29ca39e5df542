#include "infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/philox.h"
#include "catch.h"

using gptrain::DrawPlace;
using gptrain::Json;
using gptrain::sample_token;
using gptrain::SamplingOptions;
using gptrain::TokenChance;

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

/// The tokens that can be drawn, by sorting all tokens.
std::vector<TokenChance> from_whole_order(const std::vector<float>& values,
                                          const SamplingOptions& options) {
    std::vector<TokenChance> all;
    const float largest = *std::max_element(values.begin(), values.end());
    for (const float value : values) {
        const double apart = static_cast<double>(value) - static_cast<double>(largest);
        all.push_back(
            {static_cast<std::int32_t>(all.size()), std::exp(apart / options.temperature)});
    }
    std::stable_sort(all.begin(), all.end(), [&](const TokenChance& a, const TokenChance& b) {
        return values[static_cast<std::size_t>(a.id)] > values[static_cast<std::size_t>(b.id)];
    });
    if (options.top_k > 0)
        all.resize(std::min(all.size(), static_cast<std::size_t>(options.top_k)));
    double total = 0;
    for (const TokenChance& one : all)
        total += one.weight;
    double kept = 0;
    std::vector<TokenChance> chances;
    for (const TokenChance& one : all) {
        const bool enough = options.top_p < 1 && kept >= options.top_p * total;
        if (!chances.empty() && (enough || one.weight < options.min_p)) break;
        chances.push_back(one);
        kept += one.weight;
    }
    return chances;
}

/// The token drawn from them: the one where the sum of weights passes a uniform share of them all.
std::int32_t drawn_from(const std::vector<TokenChance>& chances, std::int64_t position) {
    double left = 0;
    for (const TokenChance& one : chances)
        left += one.weight;
    const auto words = gptrain::philox(
        {static_cast<std::uint32_t>(position), 0, 0, 0},
        gptrain::philox_stream(SamplingOptions{}.seed, gptrain::name_hash("sampling"), 0, 0));
    left *= static_cast<double>((std::uint64_t{words[0]} << 32 | words[1]) >> 11) * 0x1p-53;
    for (const TokenChance& one : chances)
        if ((left -= one.weight) < 0) return one.id;
    return chances.back().id;
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

TEST_CASE("only what is needed is sorted, and chosen as from the whole order") {
    // Flat logits need most of the order, steep ones a few tokens; rounded ones have many ties.
    const std::int64_t vocab = 3000;
    for (const double steep : {0.01, 2.0, 30.0}) {
        std::vector<float> values(vocab);
        for (std::int64_t id = 0; id < vocab; ++id) {
            const double wave = std::sin(12.9898 * static_cast<double>(id));
            values[static_cast<std::size_t>(id)] =
                static_cast<float>(std::round(wave * 300) / 300 * steep);
        }
        for (const SamplingOptions& options :
             {SamplingOptions{},
              {.top_k = 50},
              {.top_k = 700},
              {.top_p = 0.9},
              {.top_p = 0.9995},
              {.min_p = 0.01},
              {.temperature = 0.7, .top_k = 900, .top_p = 0.95, .min_p = 0.001}}) {
            CAPTURE(steep, options.top_k, options.top_p, options.min_p);
            const auto expected = from_whole_order(values, options);
            const auto chances = gptrain::token_chances(values, options);
            REQUIRE(chances.size() == expected.size());
            for (std::size_t i = 0; i < chances.size(); ++i) {
                REQUIRE(chances[i].id == expected[i].id);
                REQUIRE(chances[i].weight == expected[i].weight);
            }
            for (std::int64_t position = 0; position < 100; ++position)
                CHECK(sample_token(values, options, {position}) == drawn_from(expected, position));
        }
    }
}

TEST_CASE("tokens of probability 0 are not drawn, and of infinite logits the first is") {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const std::vector<float> some = {-infinity, 1, -infinity, 1};
    CHECK(drawn(counts_of(some, {})) == std::set<std::size_t>{1, 3});
    CHECK(gptrain::token_chances(some, {}).size() == 2);
    CHECK(sample_token(std::vector<float>{0, infinity, infinity}, {}, {3}) == 1);
    CHECK(sample_token(std::vector<float>{-infinity, -infinity}, {}, {3}) == 0);
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
