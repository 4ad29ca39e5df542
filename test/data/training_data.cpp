#include "data/training_data.h"

#include <limits>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "catch.h"
#include "data/token_files.h"

namespace gptrain {
namespace {

using namespace test;

DataOptions options_of(const TempFolder& folder) {
    return {1234, 4, 20, 8, folder / "cache"};
}

std::set<std::int32_t> ids_of(const SampleSource& source, std::int64_t samples) {
    std::set<std::int32_t> ids;
    std::vector<std::int32_t> sample(5);
    for (std::int64_t i = 0; i < samples; ++i) {
        source.sample(i, sample);
        ids.insert(sample.begin(), sample.end());
    }
    return ids;
}

TEST_CASE("a training split without a token is refused instead of looped over") {
    const TempFolder folder;
    write_tokens(folder / "full", counting(0, 50, 5));
    write_tokens(folder / "none", {});
    write_tokens(folder / "hollow", {{}, {}, {}});
    write_tokens(folder / "one", {{1, 2, 3, 4, 5, 6}});
    DataSpec spec;
    const auto fault = [&] {
        return message_of(ExitCode::bad_input,
                          [&] { make_training_data(spec, options_of(folder)); });
    };
    for (const std::string name : {"none", "hollow"}) {
        spec.train = {{folder / name, 1.0}};
        CHECK(contains(fault(), name + ": "));
        spec.train = {{folder / "full", 1.0}, {folder / name, 1.0}};
        CHECK(contains(fault(), name + ": "));
        spec.validation = {{folder / "full", 1.0}};
        CHECK(contains(fault(), name + ": "));
        spec.validation.clear();
    }
    spec.train = {{folder / "one", 1.0}};
    spec.split = "1,99";
    CHECK(contains(fault(), "data.split \"1,99\""));
    spec.split = "99,1";
    CHECK(fault() == "");
}

TEST_CASE("a validation split without a token switches evaluation off") {
    const TempFolder folder;
    write_tokens(folder / "one", {{1, 2, 3, 4, 5, 6}});
    write_tokens(folder / "hollow", {{}, {}});
    DataSpec spec;
    spec.train = {{folder / "one", 1.0}};
    CHECK(make_training_data(spec, options_of(folder)).validation == nullptr);
    spec.validation = {{folder / "hollow", 1.0}};
    CHECK(make_training_data(spec, options_of(folder)).validation == nullptr);
    spec.validation.push_back({folder / "one", 3.0});
    const TrainingData data = make_training_data(spec, options_of(folder));
    REQUIRE(data.validation);
    CHECK(ids_of(*data.validation, 8) == std::set<std::int32_t>{1, 2, 3, 4, 5, 6});

    DataOptions no_evaluation = options_of(folder);
    no_evaluation.eval_samples = 0;
    CHECK(make_training_data(spec, no_evaluation).validation == nullptr);
}

TEST_CASE("a source without a validation token leaves the validation blend") {
    const TempFolder folder;
    write_tokens(folder / "a", counting(0, 100, 5));
    write_tokens(folder / "b", {{1000, 1001, 1002, 1003, 1004, 1005}});
    DataSpec spec;
    spec.train = {{folder / "a", 1.0}, {folder / "b", 1.0}};
    spec.split = "90,10";
    const TrainingData data = make_training_data(spec, options_of(folder));
    REQUIRE(data.validation);
    const auto ids = ids_of(*data.validation, 8);
    CHECK(*ids.begin() >= 450);
    CHECK(*ids.rbegin() < 500);
    CHECK(ids_of(*data.train, 20).count(1000) == 1);
}

TEST_CASE("every pass over the training samples has the order of a seed of its own") {
    const TempFolder folder;
    write_tokens(folder / "a", counting(0, 100, 5));
    DataSpec spec;
    spec.train = {{folder / "a", 1.0}};
    const auto samples = [](const SampleSource& source, std::int64_t first) {
        std::vector<std::int32_t> all(20 * 5);
        for (std::size_t i = 0; i < 20; ++i)
            source.sample(first + static_cast<std::int64_t>(i), std::span(all).subspan(5 * i, 5));
        return all;
    };
    const TrainingData data = make_training_data(spec, options_of(folder));
    std::set<std::vector<std::int32_t>> orders;
    for (const std::int64_t pass : {0, 1, 2, 3}) {
        DataOptions options = options_of(folder);
        options.seed += static_cast<std::uint64_t>(pass);
        const auto order = samples(*data.train, 20 * pass);
        CHECK(order == samples(*make_training_data(spec, options).train, 0));
        orders.insert(order);
    }
    CHECK(orders.size() == 4);
}

TEST_CASE("the weight of a single source does not matter") {
    const TempFolder folder;
    write_tokens(folder / "a", counting(0, 100, 5));
    DataSpec spec;
    std::vector<std::vector<std::int32_t>> firsts;
    for (const double weight : {1.0, 0.25}) {
        spec.train = {{folder / "a", weight}};
        std::vector<std::int32_t> sample(5);
        make_training_data(spec, options_of(folder)).train->sample(3, sample);
        firsts.push_back(sample);
    }
    CHECK(firsts[0] == firsts[1]);
}

TEST_CASE("sources are identified by prefix, weight and contents") {
    const TempFolder folder;
    write_tokens(folder / "a", counting(0, 100, 5));
    write_tokens(folder / "v", counting(0, 10, 5));
    DataSpec spec;
    spec.train = {{folder / "a", 2.0}};
    spec.validation = {{folder / "v", 1.0}};
    const TrainingData before = make_training_data(spec, options_of(folder));
    REQUIRE(before.train_sources.size() == 1);
    CHECK(before.train_sources[0].prefix == folder / "a");
    CHECK(before.train_sources[0].weight == 2.0);
    REQUIRE(before.validation_sources.size() == 1);
    CHECK(before.validation_sources[0].fingerprint != before.train_sources[0].fingerprint);
    write_tokens(folder / "a", counting(1, 100, 5));
    const TrainingData after = make_training_data(spec, options_of(folder));
    CHECK_FALSE(after.train_sources == before.train_sources);
    CHECK(after.validation_sources == before.validation_sources);
}

TEST_CASE("weights that are not above 0 are refused") {
    const TempFolder folder;
    write_tokens(folder / "a", counting(0, 10, 5));
    DataSpec spec;
    for (const double weight : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                                std::numeric_limits<double>::infinity()}) {
        spec.train = {{folder / "a", 1.0}, {folder / "a", weight}};
        CHECK(message_of(ExitCode::usage, [&] { make_training_data(spec, options_of(folder)); }) !=
              "");
    }
}

}  // namespace
}  // namespace gptrain
