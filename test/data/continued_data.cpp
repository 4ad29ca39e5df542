// Training data that changes in the middle of a run.
#include "data/continued_data.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "catch.h"
#include "data/saved_data.h"
#include "data/token_files.h"
#include "data/training_data.h"

namespace gptrain {
namespace {

using namespace test;

constexpr std::int64_t length = 4;

/// Three sources without a common token, in which no token occurs twice.
struct Corpus {
    TempFolder folder;
    DataSource a = {folder / "a", 1.0};
    DataSource b = {folder / "b", 1.0};
    DataSource c = {folder / "c", 1.0};

    Corpus() {
        write_tokens(folder / "a", counting(0, 100, 5));
        write_tokens(folder / "b", counting(1000, 60, 5));
        write_tokens(folder / "c", counting(2000, 80, 5));
    }

    TrainingData open(const std::vector<DataSource>& sources, std::optional<SavedData> saved = {},
                      std::optional<std::int64_t> num_samples = {}) const {
        DataSpec spec;
        spec.train = sources;
        spec.split = "100";
        spec.on_change = OnChange::go_on;
        return make_training_data(spec, {.seed = 1234,
                                         .seq_length = length,
                                         .num_samples = num_samples,
                                         .cache = folder / "cache",
                                         .saved = std::move(saved)});
    }
};

using Sample = std::vector<std::int32_t>;

std::vector<Sample> samples(const TrainingData& data, std::int64_t begin, std::int64_t end) {
    std::vector<Sample> all;
    for (std::int64_t i = begin; i < end; ++i) {
        Sample sample(length + 1);
        CHECK(data.train->sample(i, sample) == length + 1);
        all.push_back(std::move(sample));
    }
    return all;
}

/// The samples whose first token is in [1000 source, 1000 (source + 1)).
std::vector<Sample> of_source(const std::vector<Sample>& all, std::int32_t source) {
    std::vector<Sample> own;
    for (const Sample& sample : all) {
        if (sample[0] / 1000 == source) own.push_back(sample);
    }
    return own;
}

std::vector<Sample> operator+(std::vector<Sample> first, const std::vector<Sample>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

/// The most often that a token is an input.
int most_reads(const std::vector<Sample>& all) {
    std::map<std::int32_t, int> reads;
    int most = 0;
    for (const Sample& sample : all) {
        for (std::size_t i = 0; i < length; ++i)
            most = std::max(most, ++reads[sample[i]]);
    }
    return most;
}

TEST_CASE("a single source goes on as if nothing had changed") {
    const Corpus corpus;
    const TrainingData straight = corpus.open({corpus.a});
    DataSource heavier = corpus.a;
    heavier.weight = 2;
    for (const std::int64_t consumed : {0, 1, 50, 123, 124, 125, 300}) {
        const TrainingData changed =
            corpus.open({heavier}, saved_after(straight, length, consumed));
        CHECK(changed.changed);
        CHECK(samples(changed, consumed, consumed + 300) ==
              samples(straight, consumed, consumed + 300));
    }
    // A pass of a given number of samples is not over before its order is: 124 samples.
    const TrainingData given = corpus.open({corpus.a}, {}, 20);
    const TrainingData changed = corpus.open({heavier}, saved_after(given, length, 47), 20);
    CHECK(most_reads(samples(given, 40, 47) + samples(changed, 47, 40 + 124)) == 1);
}

TEST_CASE("equal weights go on as if nothing had changed") {
    const Corpus corpus;
    const TrainingData straight = corpus.open({corpus.a, corpus.c});
    DataSource a = corpus.a;
    DataSource c = corpus.c;
    a.weight = c.weight = 3;
    for (const std::int64_t consumed : {0, 2, 90}) {
        const TrainingData changed = corpus.open({a, c}, saved_after(straight, length, consumed));
        CHECK(samples(changed, consumed, straight.num_samples) ==
              samples(straight, consumed, straight.num_samples));
    }
}

TEST_CASE("a kept source repeats nothing, a new one starts, and weights hold") {
    const Corpus corpus;
    const TrainingData before = corpus.open({corpus.a, corpus.b});
    constexpr std::int64_t consumed = 61;
    DataSource c = corpus.c;
    c.weight = 3;
    const TrainingData after = corpus.open({c, corpus.a}, saved_after(before, length, consumed));
    CHECK(after.changed);
    CHECK(after.num_samples == 124 + 99);
    const auto first = samples(before, 0, consumed);
    const auto second = samples(after, consumed, consumed + 124);
    CHECK(of_source(second, 1).empty());
    CHECK(of_source(second, 2).size() == 93);
    CHECK(most_reads(first + second) == 1);
    // The order of each source is that of a run over it alone.
    const auto alone = [&](const DataSource& source, std::int64_t count) {
        return samples(corpus.open({source}), 0, count);
    };
    CHECK(of_source(first + second, 0) == alone(corpus.a, 31 + 31));
    CHECK(of_source(second, 2) == alone(corpus.c, 93));
    // Beyond its samples a source starts again, in another order.
    const auto long_run = of_source(samples(after, consumed, consumed + 4 * 124), 2);
    CHECK(most_reads({long_run.begin(), long_run.begin() + 99}) == 1);
    CHECK(most_reads({long_run.begin() + 99, long_run.begin() + 198}) == 1);
    CHECK(std::vector(long_run.begin(), long_run.begin() + 99) !=
          std::vector(long_run.begin() + 99, long_run.begin() + 198));
}

TEST_CASE("a resumed run repeats what it read after a change, and may change again") {
    const Corpus corpus;
    const TrainingData first = corpus.open({corpus.a, corpus.b});
    const TrainingData second = corpus.open({corpus.a, corpus.c}, saved_after(first, length, 60));
    const TrainingData resumed =
        corpus.open({corpus.a, corpus.c}, saved_after(second, length, 100));
    CHECK_FALSE(resumed.changed);
    CHECK(resumed.phase == second.phase);
    CHECK(samples(resumed, 100, 400) == samples(second, 100, 400));

    // B comes back and continues where it stopped.
    const TrainingData third = corpus.open({corpus.b, corpus.a}, saved_after(second, length, 101));
    REQUIRE(third.changed);
    REQUIRE(third.phase->sources.size() == 3);
    CHECK(third.phase->sources[0].given == 30);
    CHECK(third.phase->sources[1].given == 30 + 21);
    CHECK(third.phase->sources[2].given == 20);
    CHECK(most_reads(samples(first, 0, 60) + samples(second, 60, 101) +
                     samples(third, 101, 101 + 58)) == 1);
    // From the middle of the second round of the blend.
    const std::int64_t later = 60 + second.num_samples + 5;
    const TrainingData fourth = corpus.open({corpus.c}, saved_after(second, length, later));
    CHECK(fourth.phase->sources[0].given ==
          static_cast<std::int64_t>(of_source(samples(second, 60, later), 2).size()));
}

TEST_CASE("an equal source twice goes on twice") {
    const Corpus corpus;
    const TrainingData before = corpus.open({corpus.a, corpus.a, corpus.b});
    const TrainingData after = corpus.open({corpus.a, corpus.a}, saved_after(before, length, 31));
    REQUIRE(after.phase->sources.size() == 3);
    CHECK(after.phase->sources[0].given + after.phase->sources[1].given +
              after.phase->sources[2].given ==
          31);
}

TEST_CASE("a number of samples alone is a change, too") {
    const Corpus corpus;
    const TrainingData before = corpus.open({corpus.a}, {}, 50);
    CHECK_FALSE(corpus.open({corpus.a}, saved_after(before, length, 10)).changed);
    CHECK(corpus.open({corpus.a}, saved_after(before, length, 10)).num_samples == 50);
    CHECK(corpus.open({corpus.a}, saved_after(before, length, 10), 60).changed);
}

}  // namespace
}  // namespace gptrain
