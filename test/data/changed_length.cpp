// Samples whose length changes in the middle of a run.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "catch.h"
#include "data/recut_order.h"
#include "data/saved_data.h"
#include "data/token_files.h"
#include "data/training_data.h"

namespace gptrain {
namespace {

using namespace test;

using Sample = std::vector<std::int32_t>;

Sample read(const SampleSource& source, std::int64_t index, std::int64_t length) {
    Sample sample(static_cast<std::size_t>(length + 1));
    CHECK(source.sample(index, sample) == length + 1);
    return sample;
}

/// How often each token is an input, that is, any but the last of a sample.
class Reads {
public:
    void add(const Sample& sample) {
        for (std::size_t i = 0; i + 1 < sample.size(); ++i)
            ++times_[sample[i]];
    }
    void add(const SampleSource& source, std::int64_t begin, std::int64_t end,
             std::int64_t length) {
        for (std::int64_t index = begin; index < end; ++index)
            add(read(source, index, length));
    }
    std::int64_t tokens() const { return std::ssize(times_); }
    int most() const {
        int most = 0;
        for (const auto& [token, times] : times_)
            most = std::max(most, times);
        return most;
    }

private:
    std::map<std::int32_t, int> times_;
};

/// The token after each in the text that an order joins.
std::map<std::int32_t, std::int32_t> followers(const WindowOrder& order) {
    std::map<std::int32_t, std::int32_t> next;
    for (std::int64_t window = 0; window < order.size(); ++window) {
        Sample tokens(static_cast<std::size_t>(order.seq_length() + 1));
        order.read(window, 0, tokens);
        for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
            next[tokens[i]] = tokens[i + 1];
    }
    return next;
}

/// True if the sample is a piece of that text.
bool is_whole(const Sample& sample, const std::map<std::int32_t, std::int32_t>& next) {
    for (std::size_t i = 0; i + 1 < sample.size(); ++i)
        if (next.at(sample[i]) != sample[i + 1]) return false;
    return true;
}

/// Whole samples that fit into runs of unread windows, if they start at the windows' starts.
std::int64_t least_whole(const WindowOrder& order, std::int64_t given, std::int64_t length) {
    std::set<std::int64_t> unread;
    for (std::int64_t index = given; index < order.size(); ++index)
        unread.insert(order.window_of(index));
    const std::int64_t unit = std::lcm(order.seq_length(), length);
    std::int64_t samples = 0;
    std::int64_t run = 0;
    for (std::int64_t window = 0; window <= order.size(); ++window) {
        if (unread.contains(window)) {
            ++run;
        } else {
            samples += run * order.seq_length() / unit * unit / length;
            run = 0;
        }
    }
    return samples;
}

TEST_CASE("what is left of an order is cut anew, and every token of it is read once") {
    constexpr std::int64_t before = 4;
    const TempFolder folder;
    const auto tokens = make_tokens(folder / "text", counting(0, 90, 7));
    const auto order = std::make_shared<const GptDataset>(
        tokens, SequenceRange{0, 90}, OrderOptions{7, before, 157}, folder / "cache");
    REQUIRE(order->size() == 157);
    const auto next = followers(*order);
    const std::int64_t after = GENERATE(1, 2, 3, 4, 6, 8, 12, 16, 100);
    for (const std::int64_t given : {1, 20, 80, 131}) {
        const RecutOrder recut(order, {given, order->size()}, after, 9, folder / "cache");
        const std::int64_t left = (order->size() - given) * before;
        REQUIRE(recut.size() == left / after);
        Reads reads;
        reads.add(*order, 0, given, before);
        reads.add(recut, 0, recut.size(), after);
        CHECK(reads.most() == 1);
        CHECK(reads.tokens() == given * before + left / after * after);
        std::int64_t whole = 0;
        for (std::int64_t index = 0; index < recut.size(); ++index) {
            const Sample sample = read(recut, index, after);
            CHECK(next.at(sample[sample.size() - 2]) == sample.back());
            whole += is_whole(sample, next) ? 1 : 0;
            for (std::int64_t offset : {std::int64_t{0}, after / 2, after}) {
                const std::int32_t token = sample[static_cast<std::size_t>(offset)];
                CHECK(recut.place_of(index, offset) == text(tokens->bin_path().string(),
                                                            ": sequence ", token / 7, ", token ",
                                                            token % 7));
            }
        }
        CHECK(whole >= least_whole(*order, given, after));
        if (before % after == 0) CHECK(whole == recut.size());
    }
}

TEST_CASE("a cut is cut again, and its windows are shuffled") {
    const TempFolder folder;
    const auto tokens = make_tokens(folder / "text", counting(0, 90, 7));
    const auto first = std::make_shared<const GptDataset>(
        tokens, SequenceRange{0, 90}, OrderOptions{7, 4, 157}, folder / "cache");
    const auto second =
        std::make_shared<const RecutOrder>(first, SampleRange{50, 157}, 6, 9, folder / "cache");
    const auto third = std::make_shared<const RecutOrder>(second, SampleRange{20, second->size()},
                                                          16, 9, folder / "cache");
    const RecutOrder fourth(third, {5, third->size()}, 3, 9, folder / "cache");
    Reads reads;
    reads.add(*first, 0, 50, 4);
    reads.add(*second, 0, 20, 6);
    reads.add(*third, 0, 5, 16);
    reads.add(fourth, 0, fourth.size(), 3);
    CHECK(reads.most() == 1);
    CHECK(reads.tokens() > 157 * 4 - 6 - 16 - 3);
    Sample windows;
    for (std::int64_t index = 0; index < second->size(); ++index)
        windows.push_back(static_cast<std::int32_t>(second->window_of(index)));
    CHECK_FALSE(std::is_sorted(windows.begin(), windows.end()));
    const RecutOrder other_seed(first, {50, 157}, 6, 10, folder / "cache");
    CHECK(read(other_seed, 0, 6) != read(*second, 0, 6));
}

/// Two sources without a common token, in which no token occurs twice.
struct Corpus {
    TempFolder folder;
    DataSource a = {folder / "a", 1.0};
    DataSource b = {folder / "b", 1.0};

    Corpus() {
        write_tokens(folder / "a", counting(0, 100, 5));
        write_tokens(folder / "b", counting(1000, 60, 5));
    }

    TrainingData open(const std::vector<DataSource>& sources, std::int64_t length,
                      std::optional<SavedData> saved = {},
                      OnChange on_change = OnChange::go_on) const {
        DataSpec spec;
        spec.train = sources;
        spec.split = "100";
        spec.on_change = on_change;
        return make_training_data(spec, {.seed = 1234,
                                         .seq_length = length,
                                         .num_samples = {},
                                         .cache = folder / "cache",
                                         .saved = std::move(saved)});
    }
};

std::vector<Sample> samples(const TrainingData& data, std::int64_t length, std::int64_t begin,
                            std::int64_t end) {
    std::vector<Sample> all;
    for (std::int64_t index = begin; index < end; ++index)
        all.push_back(read(*data.train, index, length));
    return all;
}

TEST_CASE("a run goes on in longer samples with what it has not read") {
    const Corpus corpus;
    const TrainingData before = corpus.open({corpus.a}, 4);
    const TrainingData after = corpus.open({corpus.a}, 16, saved_after(before, 4, 60));
    REQUIRE(after.changed);
    CHECK(after.num_samples == 499 / 16);
    CHECK(after.phase->first_token == 240);
    CHECK(tokens_in_samples(70, 16, after.phase) == 240 + 10 * 16);
    Reads reads;
    reads.add(*before.train, 0, 60, 4);
    reads.add(*after.train, 60, 60 + 16, 16);  // (124 - 60) 4 / 16
    CHECK(reads.most() == 1);
    CHECK(reads.tokens() == 124 * 4);
    // The next pass reads all of it again, in samples of the new length.
    Reads pass;
    pass.add(*after.train, 76, 76 + 31, 16);
    CHECK(pass.most() == 1);
    CHECK(pass.tokens() == 31 * 16);
}

TEST_CASE("after a change of the length a run resumes, and may change again") {
    const Corpus corpus;
    const TrainingData first = corpus.open({corpus.a, corpus.b}, 4);
    const TrainingData second = corpus.open({corpus.a, corpus.b}, 8, saved_after(first, 4, 60));
    const TrainingData resumed = corpus.open({corpus.a, corpus.b}, 8, saved_after(second, 8, 70));
    CHECK_FALSE(resumed.changed);
    CHECK(resumed.phase == second.phase);
    CHECK(samples(resumed, 8, 70, 200) == samples(second, 8, 70, 200));

    // B is left out, then comes back in samples of a third length.
    const TrainingData third = corpus.open({corpus.a}, 8, saved_after(second, 8, 80));
    const TrainingData fourth = corpus.open({corpus.b, corpus.a}, 6, saved_after(third, 8, 90));
    Reads reads;
    reads.add(*first.train, 0, 60, 4);
    reads.add(*second.train, 60, 80, 8);
    reads.add(*third.train, 80, 90, 8);
    // Half of them are B's, which has 74 4 - 30 4 - 10 8 tokens of its first epoch left, 16 6.
    reads.add(*fourth.train, 90, 90 + 32, 6);
    CHECK(reads.most() == 1);
    CHECK(reads.tokens() == 60 * 4 + 30 * 8 + 32 * 6);
    CHECK(fourth.phase->first_token == 60 * 4 + 30 * 8);
    CHECK(fourth.phase->sources[0].changes == std::vector<LengthChange>{{4, 30}, {8, 10}});
}

TEST_CASE("a length that changes in a later pass cuts that pass") {
    const Corpus corpus;
    const TrainingData before = corpus.open({corpus.a}, 4);
    // In pass 2 of data that never changed, and in pass 3 of data that did.
    const TrainingData second = corpus.open({corpus.a}, 8, saved_after(before, 4, 124 + 40));
    CHECK(second.phase->sources[0].pass == 1);
    Reads pass;
    pass.add(*before.train, 124, 164, 4);
    pass.add(*second.train, 164, 164 + 42, 8);
    CHECK(pass.most() == 1);
    CHECK(pass.tokens() == 124 * 4);
    const std::int64_t later = 164 + 42 + 62 + 20;
    const TrainingData third = corpus.open({corpus.a}, 16, saved_after(second, 8, later));
    CHECK(third.phase->sources[0].pass == 3);
    Reads last;
    last.add(*second.train, later - 20, later, 8);
    last.add(*third.train, later, later + 21, 16);
    CHECK(last.most() == 1);
    CHECK(last.tokens() == 62 * 8);
    // Between two passes nothing is left to cut.
    const TrainingData between = corpus.open({corpus.a}, 16, saved_after(second, 8, 164 + 42));
    CHECK(between.phase->sources[0].changes.empty());
    CHECK(between.phase->sources[0].pass == 2);
}

TEST_CASE("a length that changes again at once reads nothing twice") {
    const Corpus corpus;
    const TrainingData first = corpus.open({corpus.a}, 4);
    const TrainingData second = corpus.open({corpus.a}, 16, saved_after(first, 4, 60));
    const TrainingData third = corpus.open({corpus.a}, 8, saved_after(second, 16, 60));
    Reads reads;
    reads.add(*first.train, 0, 60, 4);
    reads.add(*third.train, 60, 60 + 32, 8);  // (124 - 60) 4 / 8
    CHECK(reads.most() == 1);
    CHECK(reads.tokens() == 124 * 4);
}

TEST_CASE("where less than a longer sample is left, the next pass begins") {
    const Corpus corpus;
    const TrainingData before = corpus.open({corpus.a}, 4);
    const TrainingData after = corpus.open({corpus.a}, 16, saved_after(before, 4, 122));
    Reads pass;
    pass.add(*after.train, 122, 122 + 31, 16);
    CHECK(pass.most() == 1);
    CHECK(pass.tokens() == 31 * 16);
    const TrainingData again = corpus.open({corpus.a}, 8, saved_after(after, 16, 123));
    CHECK(again.phase->sources[0].pass == 1);
    CHECK(again.phase->sources[0].changes == std::vector<LengthChange>{{16, 1}});
}

TEST_CASE("another length is refused where data may not change, and damage is named") {
    const Corpus corpus;
    const TrainingData before = corpus.open({corpus.a}, 4);
    const TrainingData refused =
        corpus.open({corpus.a}, 8, saved_after(before, 4, 60), OnChange::refuse);
    CHECK_FALSE(refused.changed);
    CHECK(refused.num_samples == before.num_samples);
    SavedData saved = saved_after(corpus.open({corpus.a}, 8, saved_after(before, 4, 60)), 8, 70);
    saved.phase->sources[0].changes[0].given = 125;
    CHECK_THROWS_WITH(corpus.open({corpus.a}, 8, saved), contains_text("of 124"));
}

}  // namespace
}  // namespace gptrain
