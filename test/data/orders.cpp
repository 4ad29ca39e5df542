// Sample orders compared with megatron-core (make_megatron_fixture.py).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "data/blended_dataset.h"
#include "data/gpt_dataset.h"
#include "data/numpy_shuffle.h"
#include "data/token_files.h"
#include "data/training_data.h"
#include "support/hdf5_fixture.h"

namespace gptrain {
namespace {

using namespace test;

const std::string fixture = std::string(GPTRAIN_TEST_DATA) + "/megatron_orders.h5";

template <class T>
std::vector<T> expected(const std::string& name) {
    return read_dataset<T>(fixture, name);
}

template <class T>
std::vector<T> copy_of(std::span<const T> values) {
    return {values.begin(), values.end()};
}

std::string split_of(const std::string& group) {
    const auto letters = expected<std::uint8_t>(group + "/split");
    return {letters.begin(), letters.end()};
}

/// The token files behind the fixture, rewritten.
std::filesystem::path write_source(const TempFolder& folder, std::int64_t source) {
    const auto prefix = folder / text("source", source);
    Sequences sequences;
    std::int64_t t = 0;
    for (const auto length : expected<std::int64_t>(text("sources/", source))) {
        auto& sequence = sequences.emplace_back();
        for (std::int64_t end = t + length; t < end; ++t) {
            sequence.push_back(
                static_cast<std::int32_t>((t * 7919 + source * 104729 + 13) % 50000));
        }
    }
    write_tokens(prefix, sequences);
    return prefix;
}

void check_tokens(const SampleSource& data, const std::string& group, std::int64_t seq_length) {
    const auto chosen = expected<std::int64_t>(group + "/chosen");
    std::vector<std::int32_t> tokens;
    for (const std::int64_t index : chosen) {
        std::vector<std::int32_t> sample(static_cast<std::size_t>(seq_length + 1));
        CHECK(data.sample(index, sample) == seq_length + 1);
        tokens.insert(tokens.end(), sample.begin(), sample.end());
    }
    CHECK(tokens == expected<std::int32_t>(group + "/tokens"));
}

void check_indices(const GptDataset& data, const std::string& group) {
    CHECK(copy_of(data.document_index()) == expected<std::int32_t>(group + "/document_index"));
    CHECK(copy_of(data.shuffle_index()) == expected<std::int64_t>(group + "/shuffle_index"));
    std::vector<std::int64_t> rows;
    for (std::size_t i = 0; i < data.sample_positions().size(); ++i) {
        rows.push_back(data.sample_positions()[i]);
        rows.push_back(data.sample_offsets()[i]);
    }
    CHECK(rows == expected<std::int64_t>(group + "/sample_index"));
}

TEST_CASE("numpy's legacy shuffle") {
    std::vector<int> values(10);
    std::iota(values.begin(), values.end(), 0);
    NumpyRandom(1234).shuffle(std::span(values));
    CHECK(values == std::vector<int>{7, 2, 9, 1, 0, 8, 4, 5, 6, 3});

    // Above 32 bits a draw takes two words, and the mask is that of the bound.
    NumpyRandom wide(5);
    std::mt19937 words(5);
    const std::uint64_t bound = std::uint64_t{1} << 32;
    for (int i = 0; i < 100; ++i) {
        std::uint64_t wanted = 0;
        do {
            const std::uint64_t high = words();
            wanted = (high << 32 | words()) & (2 * bound - 1);
        } while (wanted > bound);
        REQUIRE(wide.interval(bound) == wanted);
    }
}

TEST_CASE("split words and ranges") {
    const DataSplit split = parse_split("969, 30,1");
    const SequenceRange validation = split.range(DataSplit::validation, 1000);
    CHECK(validation.begin == 969);
    CHECK(validation.end == 999);
    // Halves round to even: 0.5 x 5 = 2.5 and 0.5 x 7 = 3.5.
    CHECK(parse_split("1,1").range(DataSplit::train, 5).end == 2);
    CHECK(parse_split("1,1").range(DataSplit::train, 7).end == 4);
    CHECK(parse_split("1").range(DataSplit::validation, 7).end == 0);
    for (const char* words : {"", ",", "1,", "a", "1;2", "-1,2", "1e3", "nan", "inf", "0,0,0",
                              "1,2,3,4", "1 2", "0x1", "1,,2"}) {
        CAPTURE(words);
        CHECK(contains(message_of(ExitCode::usage, [&] { parse_split(words); }), "data.split"));
    }
}

TEST_CASE("orders of one source are Megatron's") {
    const TempFolder folder;
    const auto counts = expected<std::int64_t>("counts");
    REQUIRE(counts[1] > 20);
    for (std::int64_t i = 0; i < counts[1]; ++i) {
        const std::string group = text("orders/", i);
        CAPTURE(group);
        // source, part, seed, sequence length, number of samples
        const auto values = expected<std::int64_t>(group + "/parameters");
        const auto tokens = std::make_shared<const IndexedDataset>(write_source(folder, values[0]));
        const auto part = static_cast<DataSplit::Part>(values[1]);
        const SequenceRange range =
            parse_split(split_of(group)).range(part, tokens->num_sequences());
        const OrderOptions order{static_cast<std::uint64_t>(values[2]), values[3], values[4]};
        // Built, then mapped from the cache.
        for (int time = 0; time < 2; ++time) {
            const GptDataset data(tokens, range, order, folder / "cache");
            CHECK(data.size() >= values[4]);
            check_indices(data, group);
            check_tokens(data, group, values[3]);
        }
    }
}

TEST_CASE("a last epoch of which less than 80 % is needed is shuffled apart") {
    const TempFolder folder;
    // 500 tokens per epoch: 99 samples of 5; 80% of that is 79.
    const auto tokens = make_tokens(folder / "a", counting(0, 100, 5));
    for (const std::int64_t from_last : {78, 79}) {
        const GptDataset data(tokens, {0, 100}, {1234, 5, 99 + from_last}, folder / "cache");
        const auto index = data.document_index();
        REQUIRE(index.size() == 200);
        const std::set<std::int32_t> first_epoch(index.begin(), index.begin() + 100);
        CHECK((first_epoch.size() == 100) == (from_last < 79));
    }
}

DataSpec spec_of(const TempFolder& folder, const std::string& group, std::int64_t part) {
    DataSpec spec;
    const auto weights = expected<double>(group + "/weights");
    const auto sources = expected<std::int64_t>(group + "/sources");
    std::vector<DataSource> blend;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        blend.push_back({write_source(folder, sources[i]), weights[i]});
    }
    spec.train = blend;
    spec.split = split_of(group);
    if (spec.split.empty()) (part == DataSplit::train ? spec.train : spec.validation) = blend;
    return spec;
}

TEST_CASE("blends are Megatron's, from the run spec's words on") {
    const TempFolder folder;
    const auto counts = expected<std::int64_t>("counts");
    for (std::int64_t i = 0; i < counts[2]; ++i) {
        const std::string group = text("blends/", i);
        CAPTURE(group);
        // part, seed, sequence length, number of samples
        const auto values = expected<std::int64_t>(group + "/parameters");
        const DataSpec spec = spec_of(folder, group, values[0]);
        const TrainingData data =
            make_training_data(spec, {static_cast<std::uint64_t>(values[1]), values[2], values[3],
                                      values[3], folder / "cache"});
        const bool training = values[0] == DataSplit::train;
        REQUIRE((training || data.validation));
        check_tokens(training ? *data.train : *data.validation, group, values[2]);
    }
}

TEST_CASE("the interleaving of a blend is Megatron's") {
    const TempFolder folder;
    const auto counts = expected<std::int64_t>("counts");
    for (std::int64_t i = 0; i < counts[2]; ++i) {
        const std::string group = text("blends/", i);
        CAPTURE(group);
        const auto values = expected<std::int64_t>(group + "/parameters");
        const auto weights = expected<double>(group + "/weights");
        if (weights.size() == 1) continue;
        const auto tokens = make_tokens(folder / "a", counting(0, 10, 100));
        const auto open = [&](std::size_t, std::int64_t num_samples) {
            return std::make_shared<const GptDataset>(
                tokens, SequenceRange{0, 10}, OrderOptions{1, 10, num_samples}, folder / "cache");
        };
        const BlendedDataset blend(plan_blend(weights, values[3]), open, folder / "cache");
        CHECK(copy_of(blend.source_index()) == [&] {
            const auto wide = expected<std::int32_t>(group + "/source_index");
            return std::vector<std::int16_t>(wide.begin(), wide.end());
        }());
        CHECK(copy_of(blend.source_sample_index()) ==
              expected<std::int64_t>(group + "/source_sample_index"));
    }
}

TEST_CASE("the weights of many sources are normalised as numpy 2.4.6 does it, twice") {
    for (const auto& [sources, first] :
         {std::pair(150, 0x1.6e4a892f718a3p-3), std::pair(200, 0x1.5c6a7ea1e30a6p-3)}) {
        std::vector<double> weights;
        for (int i = 0; i < sources; ++i)
            weights.push_back(1.0 / (i + 1));
        CHECK(plan_blend(weights, 1000).weights[0] == first);
    }
}

TEST_CASE("a source that a blend draws on beyond its request is opened with more") {
    // With these weights the order takes 5 samples from a source of which 4 are requested;
    // megatron-core stops there with an IndexError.
    const std::vector<double> weights = {0.1, 0.2, 0.3, 0.7, 0.11, 0.13, 0.17, 0.19, 3.0};
    const TempFolder folder;
    const auto tokens = make_tokens(folder / "a", {{1, 2, 3, 4, 5, 6, 7, 8, 9}});
    bool opened_again = false;
    for (std::int64_t num_samples = 1; num_samples < 60; ++num_samples) {
        const Blend plan = plan_blend(weights, num_samples);
        const auto open = [&](std::size_t source, std::int64_t wanted) {
            opened_again = opened_again || wanted != plan.requests[source];
            return std::make_shared<const GptDataset>(tokens, SequenceRange{0, 1},
                                                      OrderOptions{1, 8, wanted}, folder / "cache");
        };
        const BlendedDataset blend(plan, open, folder / "cache");
        std::vector<std::int32_t> sample(9);
        for (std::int64_t i = 0; i < blend.size(); ++i)
            CHECK_NOTHROW(blend.sample(i, sample));
    }
    CHECK(opened_again);
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

TEST_CASE("a damaged or foreign cache file is built anew") {
    const TempFolder folder;
    const auto tokens = make_tokens(folder / "a", counting(0, 20, 7));
    const auto open = [&] { return GptDataset(tokens, {0, 20}, {1234, 5, 60}, folder / "cache"); };
    const auto wanted = copy_of(open().shuffle_index());
    const auto files = [&] { return files_in(folder / "cache"); };
    REQUIRE(files().size() == 2);
    REQUIRE(files()[0].filename() == ".lock");
    const std::filesystem::path file = files()[1];
    const std::string good = contents(file);
    std::vector<std::string> damaged = {"", "GPTINDEX", good.substr(0, good.size() - 1), good + "x",
                                        std::string(good.size(), '\0')};
    for (const std::size_t byte : {0ul, 8ul, 12ul, 16ul, 30ul, 200ul, good.size() - 1}) {
        damaged.push_back(good);
        damaged.back()[byte] = static_cast<char>(damaged.back()[byte] ^ 4);
    }
    for (const std::string& bytes : damaged) {
        fill(file, bytes);
        CHECK(copy_of(open().shuffle_index()) == wanted);
        CHECK(contents(file) == good);
    }
    // No other file is left behind.
    CHECK(files().size() == 2);
}

TEST_CASE("of several that miss an index at once one builds it") {
    const TempFolder folder;
    std::atomic<int> builds = 0;
    std::atomic<int> right = 0;
    const auto open = [&] {
        const CachedArrays arrays(folder / "cache", "a", "key", {8}, [&](const auto& bytes) {
            ++builds;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            elements<std::int64_t>(bytes[0])[0] = 42;
        });
        right += arrays.array<std::int64_t>(0)[0] == 42 ? 1 : 0;
    };
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back(open);
    }
    CHECK(builds == 1);
    CHECK(right == 4);
}

TEST_CASE("an order that a full or missing disk cannot hold is an error of input and output") {
    const TempFolder folder;
    const auto tokens = make_tokens(folder / "a", {{1}});
    fill(folder / "cache", "a file in the place of the folder");
    CHECK(message_of(ExitCode::io, [&] {
              GptDataset(tokens, {0, 1}, {1234, 4, 8}, folder / "cache");
          }) != "");
    // 2^57 epochs of one token would need an exbibyte; the error comes before anything is written.
    std::filesystem::remove(folder / "cache");
    CHECK(contains(
        message_of(
            ExitCode::io,
            [&] {
                GptDataset(tokens, {0, 1}, {1234, 4, std::int64_t{1} << 55}, folder / "cache");
            }),
        "cannot reserve"));
}

}  // namespace
}  // namespace gptrain
