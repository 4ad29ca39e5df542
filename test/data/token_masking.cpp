// Masked language modelling: masks of fixed values, their shares, and the batches made with them.
#include "data/token_masking.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "catch.h"
#include "data/batch_loader.h"
#include "data/expected_masking.h"
#include "data/sequential_dataset.h"

namespace gptrain {
namespace {

/// The result of mask_tokens for tokens 1, 2, 3, ..., of which every `every`-th may not be chosen.
struct Masked {
    Masked(const TokenMasking& masking, std::int64_t sample, std::size_t length,
           std::size_t every = 0)
        : read(length), chosen(length) {
        std::iota(read.begin(), read.end(), 1);
        for (std::size_t i = 0; i < length; ++i)
            chosen[i] = every == 0 || i % every != 0 ? 1 : 0;
        mask_tokens(masking, sample, read, chosen);
    }
    std::int64_t count() const { return std::count(chosen.begin(), chosen.end(), 1); }

    std::vector<std::int32_t> read;
    std::vector<std::uint8_t> chosen;
};

TokenMasking masking_with(Masking kind, double rate = 0.15) {
    TokenMasking masking = {.rule = {}, .seed = 3, .vocab_size = 1'000'000};
    masking.rule.masking = kind;
    masking.rule.mask_rate = rate;
    masking.rule.mask_id = 0;
    return masking;
}

/// How far a count of independent draws of this probability may be from its mean: five standard
/// deviations, which one count in a million exceeds.
double spread(double draws, double probability) {
    return 5 * std::sqrt(draws * probability * (1 - probability));
}

TEST_CASE("masks are those that Python computes", "[masking]") {
    for (const expected::MaskingCase& c : expected::masking_cases) {
        const Masked masked({c.rule, c.seed, c.vocab_size}, c.sample, c.read.size(),
                            static_cast<std::size_t>(c.every));
        CAPTURE(c.sample, c.every);
        CHECK(masked.read == c.read);
        CHECK(masked.chosen == c.chosen);
    }
}

TEST_CASE("tokens are chosen and replaced at the rates of the spec", "[masking]") {
    constexpr std::size_t length = 100'000;
    const TokenMasking masking = masking_with(Masking::token, 0.3);
    const Masked masked(masking, 8, length);
    const auto chosen = static_cast<double>(masked.count());
    CHECK(std::abs(chosen - 0.3 * length) <= spread(length, 0.3));
    double masks = 0;
    double others = 0;
    for (std::size_t i = 0; i < length; ++i) {
        const bool same = masked.read[i] == static_cast<std::int32_t>(i) + 1;
        if (masked.chosen[i] == 0) REQUIRE(same);
        masks += masked.read[i] == 0 ? 1 : 0;
        others += !same && masked.read[i] != 0 ? 1 : 0;
    }
    CHECK(std::abs(masks - 0.8 * chosen) <= spread(chosen, 0.8));
    CHECK(std::abs(others - 0.1 * chosen) <= spread(chosen, 0.1));
}

TEST_CASE("spans fill the share of the spec and have SpanBERT's mean length", "[masking]") {
    TokenMasking masking = masking_with(Masking::span, 0.02);  // spans seldom touch
    masking.rule.mask_share = 1;
    masking.rule.random_share = 0;
    constexpr std::size_t length = 100'000;
    const Masked masked(masking, 1, length);
    CHECK(masked.count() == 2000);
    double runs = 0;
    for (std::size_t i = 0; i < length; ++i) {
        CHECK((masked.read[i] == 0) == (masked.chosen[i] != 0));
        if (masked.chosen[i] != 0 && (i == 0 || masked.chosen[i - 1] == 0)) ++runs;
    }
    // The paper's p 0.2 and at most 10 tokens: 3.8 on average, with a standard deviation of 2.6.
    CHECK(std::abs(2000 / runs - 3.8) <= 5 * 2.6 / std::sqrt(runs));
    masking.rule.max_span = 1;
    const Masked single(masking, 1, length);
    CHECK(single.count() == 2000);
}

TEST_CASE("a span ends at a token that may not be chosen", "[masking]") {
    const TokenMasking masking = masking_with(Masking::span, 0.5);
    const Masked masked(masking, 4, 4000, 4);
    CHECK(masked.count() == 1500);  // of 3000
    for (std::size_t i = 0; i < 4000; i += 4)
        CHECK(masked.chosen[i] == 0);
    CHECK(Masked(masking, 4, 4000, 1).count() == 0);
}

TEST_CASE("masks of other samples and seeds are independent", "[masking]") {
    constexpr std::size_t length = 100'000;
    for (const Masking kind : {Masking::token, Masking::span}) {
        const TokenMasking masking = masking_with(kind, 0.5);
        TokenMasking other_seed = masking;
        other_seed.seed = 4;
        const Masked first(masking, 5, length);
        CHECK(Masked(masking, 5, length).read == first.read);
        for (const Masked& other : {Masked(masking, 6, length), Masked(other_seed, 5, length),
                                    Masked(masking, 5 + (std::int64_t{1} << 32), length)}) {
            double both = 0;
            for (std::size_t i = 0; i < length; ++i)
                both += first.chosen[i] * other.chosen[i];
            // Tokens of a span are chosen together, so there are fewer independent draws.
            const double draws = static_cast<double>(length) / (kind == Masking::span ? 10 : 1);
            CHECK(std::abs(both / length - 0.25) <= spread(draws, 0.25) / draws);
        }
    }
}

constexpr std::int64_t seq_length = 32;

/// Text of ids 1 to 60, with the end of document 61 after every tenth.
SequentialDataset text_of(std::int64_t tokens) {
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < tokens; ++i)
        ids.push_back(i % 10 == 9 ? 61 : 1 + i % 60);
    return {ids, "text", seq_length, Windows::whole};
}

BatchShape shape_of(std::int64_t rank, std::int64_t ranks) {
    BatchShape shape;
    shape.seq_length = seq_length;
    shape.micro_batch_size = 2;
    shape.data_rank = rank;
    shape.data_ranks = ranks;
    shape.vocab_size = 64;
    shape.eod_id = 61;
    shape.masking = TokenMasking{.rule = {}, .seed = 1, .vocab_size = 64};
    shape.masking->rule.mask_id = 63;
    return shape;
}

TEST_CASE("a masked batch asks for the text itself, where tokens are chosen", "[masking]") {
    const SequentialDataset source = text_of(100 * seq_length);
    BatchShape shape = shape_of(0, 1);
    shape.masking->rule.mask_rate = 0.5;
    shape.eod_mask_loss = GENERATE(false, true);
    const StepBatch batch = make_step_batch(source, shape, 3, 8, 4);
    double chosen = 0;
    double ends = 0;
    for (const Microbatch& one : batch.microbatches) {
        for (std::size_t i = 0; i < one.ids.size(); ++i) {
            const std::int64_t token =
                (8 + one.first_sequence) * seq_length + static_cast<std::int64_t>(i);
            CHECK(one.targets[i] == (token % 10 == 9 ? 61 : 1 + token % 60));
            if (one.weights[i] == 0) CHECK(one.ids[i] == one.targets[i]);
            chosen += one.weights[i];
            if (one.targets[i] == 61) ends += one.weights[i];
        }
    }
    CHECK(batch.weight_sum == chosen);
    CHECK((ends == 0) == shape.eod_mask_loss);
}

TEST_CASE("all meshes and steps mask a sample alike", "[masking]") {
    const SequentialDataset source = text_of(100 * seq_length);
    const StepBatch whole = make_step_batch(source, shape_of(0, 1), 3, 8, 8);
    double weights = 0;
    for (const std::int64_t rank : {0, 1}) {
        const StepBatch part = make_step_batch(source, shape_of(rank, 2), 9, 8, 8);
        weights += part.weight_sum;
        REQUIRE(part.microbatches.size() == 2);
        for (std::size_t m = 0; m < 2; ++m) {
            const Microbatch& same = whole.microbatches[2 * m + static_cast<std::size_t>(rank)];
            CHECK(part.microbatches[m].ids == same.ids);
            CHECK(part.microbatches[m].weights == same.weights);
        }
    }
    CHECK(weights == whole.weight_sum);
    // The same sample index reads the same masks wherever a batch begins, and others in the next
    // pass, whose indices continue.
    const StepBatch later = make_step_batch(source, shape_of(0, 1), 1, 12, 4);
    CHECK(later.microbatches[0].ids == whole.microbatches[2].ids);
    CHECK(later.microbatches[0].ids != whole.microbatches[0].ids);
}

TEST_CASE("whole windows have every token once and no padding", "[masking]") {
    for (const std::int64_t tokens : {32, 33, 63, 64, 65, 100}) {
        CAPTURE(tokens);
        const SequentialDataset source = text_of(tokens);
        std::vector<int> times(static_cast<std::size_t>(tokens));
        std::vector<std::int32_t> ids(seq_length + 1);
        std::vector<float> weights(seq_length + 1);
        for (std::int64_t index = 0; index < source.size(); ++index) {
            CHECK(source.sample(index, ids) >= seq_length);
            source.weights(index, weights);
            const std::int64_t begin = std::min(index * seq_length, tokens - seq_length);
            for (std::int64_t i = 0; i < seq_length; ++i) {
                const std::int64_t token = begin + i;
                const auto at = static_cast<std::size_t>(i);
                CHECK(ids[at] == (token % 10 == 9 ? 61 : 1 + token % 60));
                times[static_cast<std::size_t>(token)] += weights[at] == 1 ? 1 : 0;
            }
        }
        CHECK(times == std::vector<int>(times.size(), 1));
        CHECK(source.sample(source.size(), ids) == 0);
        CHECK(source.place_of(source.size() - 1, seq_length - 1) ==
              text("text: token ", tokens - 1));
    }
}

}  // namespace
}  // namespace gptrain
