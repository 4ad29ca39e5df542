#include "data/training_data.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "catch.h"
#include "data/batch_loader.h"
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

/// How often each token starts a target: the first S tokens of the samples [begin, end).
std::map<std::int32_t, int> reads_of(const SampleSource& source, std::int64_t begin,
                                     std::int64_t end) {
    std::map<std::int32_t, int> reads;
    std::vector<std::int32_t> sample(5);
    for (std::int64_t i = begin; i < end; ++i) {
        source.sample(i, sample);
        for (std::size_t token = 0; token < 4; ++token)
            ++reads[sample[token]];
    }
    return reads;
}

int most_reads(const std::map<std::int32_t, int>& reads) {
    int most = 0;
    for (const auto& [token, count] : reads)
        most = std::max(most, count);
    return most;
}

DataOptions one_pass(const TempFolder& folder) {
    return {1234, 4, std::nullopt, 0, folder / "cache"};
}

TEST_CASE("without a number of samples a pass reads all of the corpus, once") {
    const TempFolder folder;
    write_tokens(folder / "a", counting(0, 100, 5));
    DataSpec spec;
    spec.train = {{folder / "a", 1.0}};
    spec.split = "100";
    const TrainingData data = make_training_data(spec, one_pass(folder));
    CHECK(data.num_samples == 124);  // 499 / 4
    const auto first = reads_of(*data.train, 0, 124);
    CHECK(first.size() == 496);
    CHECK(most_reads(first) == 1);
    const auto second = reads_of(*data.train, 124, 248);
    CHECK(second.size() == 496);
    CHECK(most_reads(second) == 1);

    // A fixed number keeps Megatron's order: beyond it, samples repeat although most are unread.
    const TrainingData given = make_training_data(spec, {1234, 4, 20, 0, folder / "cache"});
    CHECK(given.num_samples == 20);
    CHECK(most_reads(reads_of(*given.train, 0, 60)) > 1);

    spec.split = "50,50";
    CHECK(make_training_data(spec, one_pass(folder)).num_samples == 62);  // 249 / 4
    write_tokens(folder / "tiny", {{1, 2}});
    spec.train = {{folder / "tiny", 1.0}};
    spec.split = "100";
    CHECK(make_training_data(spec, one_pass(folder)).num_samples == 1);
}

TEST_CASE("a pass over a blend has as many samples as its sources hold together") {
    const TempFolder folder;
    write_tokens(folder / "a", counting(0, 100, 5));
    write_tokens(folder / "b", counting(1000, 20, 5));
    DataSpec spec;
    spec.split = "100";
    spec.train = {{folder / "a", 124.0}, {folder / "b", 24.0}};
    const TrainingData by_size = make_training_data(spec, one_pass(folder));
    CHECK(by_size.num_samples == 148);  // 499 / 4 + 99 / 4
    const auto once = reads_of(*by_size.train, 0, 148);
    CHECK(once.size() == 4 * 148);
    CHECK(most_reads(once) == 1);
    // Weights that ask for more of b than it has: b repeats, a does not.
    spec.train = {{folder / "a", 1.0}, {folder / "b", 1.0}};
    const TrainingData equal = make_training_data(spec, one_pass(folder));
    CHECK(equal.num_samples == 148);
    const auto reads = reads_of(*equal.train, 0, 148);
    CHECK(reads.size() == 4 * 74 + 100);
    CHECK(reads.begin()->second == 1);
    CHECK(most_reads(reads) > 1);
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

TEST_CASE("a source that is read more than 40 times over is told with figures") {
    const TempFolder folder;
    write_tokens(folder / "large", counting(0, 50, 20));
    write_tokens(folder / "small", {{1, 2, 3, 4, 5, 6}});
    DataSpec spec;
    spec.split = "1";
    DataOptions options = options_of(folder);
    options.run_samples = 61;
    const auto warning = [&] {
        const std::vector<std::string> all = make_training_data(spec, options).warnings;
        return all.empty() ? std::string() : all.front();
    };
    // 61 samples of 4 tokens are 40.7 times 6 tokens.
    spec.train = {{folder / "small", 1.0}};
    CHECK(contains(warning(), "6 training tokens of " + (folder / "small").string()));
    CHECK(contains(warning(), " 41 times; beyond 40"));
    options.run_samples = 60;
    CHECK(warning() == "");
    spec.train = {{folder / "large", 3.0}, {folder / "small", 1.0}};
    CHECK(warning() == "");
    options.run_samples = 250;
    CHECK(contains(warning(), (folder / "small").string() + " 42 times; beyond 40"));
}

TEST_CASE("the tokens to train on are counted without a run") {
    const TempFolder folder;
    write_tokens(folder / "a", counting(0, 100, 5));
    write_tokens(folder / "b", counting(0, 10, 3));
    DataSpec spec;
    spec.train = {{folder / "a", 1.0}, {folder / "b", 9.0}};
    spec.split = "80,20";
    CHECK(count_training_tokens(spec) == 80 * 5 + 8 * 3);
    spec.validation = {{folder / "nothing", 1.0}};
    CHECK(count_training_tokens(spec) == 100 * 5 + 10 * 3);
    std::filesystem::remove(folder / "b.bin");
    CHECK_FALSE(count_training_tokens(spec));
    spec.train[1].prefix = folder / "nothing";
    CHECK_FALSE(count_training_tokens(spec));
    fill(folder / "b.bin", "");
    spec.train[1].prefix = folder / "b";
    CHECK(message_of(ExitCode::bad_input, [&] { count_training_tokens(spec); }).find("b.") !=
          std::string::npos);
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

TEST_CASE("each sample of a blended validation has its source, by name") {
    const TempFolder folder;
    std::filesystem::create_directory(folder / "web");
    std::filesystem::create_directory(folder / "books");
    write_tokens(folder / "books" / "a", counting(0, 100, 5));
    write_tokens(folder / "hollow", {{}, {}});
    write_tokens(folder / "b", counting(1000, 100, 5));
    write_tokens(folder / "web" / "a", counting(2000, 100, 5));
    DataSpec spec;
    spec.train = {{folder / "b", 1.0}};
    spec.validation = {
        {folder / "books" / "a", 1.0}, {folder / "hollow", 1.0}, {folder / "b", 2.0}};
    using Names = std::vector<std::string>;
    CHECK(make_training_data(spec, options_of(folder)).blended_validation == Names{"a", "b"});
    spec.validation.push_back({folder / "web" / "a", 1.0});
    const TrainingData data = make_training_data(spec, options_of(folder));
    CHECK(data.blended_validation ==
          Names{(folder / "books" / "a").string(), "b", (folder / "web" / "a").string()});
    BatchShape shape;
    shape.seq_length = 4;
    shape.micro_batch_size = 2;
    shape.vocab_size = 3000;
    for (const Microbatch& microbatch :
         make_step_batch(*data.validation, shape, 1, 0, 8).microbatches) {
        REQUIRE(microbatch.sources.size() == 2);
        for (std::size_t b = 0; b < 2; ++b)
            CHECK(microbatch.sources[b] == microbatch.ids[4 * b] / 1000);
    }
    spec.validation = {{folder / "b", 1.0}, {folder / "hollow", 1.0}};
    CHECK(make_training_data(spec, options_of(folder)).blended_validation.empty());
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
    // A weight that is too small next to the others is also refused.
    spec.train = {{folder / "a", 1e30}, {folder / "a", 1e-300}};
    CHECK(
        contains(message_of(ExitCode::usage, [&] { make_training_data(spec, options_of(folder)); }),
                 "has weight 1e-300, which is too small next to"));
}

TEST_CASE("a spec that asks for ends of documents warns of sources without them") {
    const TempFolder folder;
    const auto write = [&](const std::string& name, bool append_eod) {
        write_tokens(folder / name, counting(append_eod ? 100 : 200, 10, 5));
        const TokenMeta meta = {"tok.json", 7, 320, append_eod, 10, 50, "gptrain 0.1.0"};
        fill(meta_path(folder / name), to_text(meta));
    };
    write("with", true);
    write("without", false);
    write_tokens(folder / "unknown", counting(0, 10, 5));
    DataSpec spec;
    spec.train = {{folder / "with", 1.0}, {folder / "without", 1.0}, {folder / "unknown", 1.0}};
    const auto warnings = [&] { return make_training_data(spec, options_of(folder)).warnings; };
    CHECK(warnings().empty());
    spec.reset_at_eod = true;
    REQUIRE(warnings().size() == 1);
    CHECK(contains(warnings().front(), "data.reset_at_eod does nothing in " +
                                           (folder / "without").string() + ", which was made"));
    spec.reset_at_eod = false;
    spec.eod_mask_loss = true;
    REQUIRE(warnings().size() == 1);
    CHECK(contains(warnings().front(), "data.eod_mask_loss does nothing in "));
}

TEST_CASE("sources with the same tokens are warned of") {
    const TempFolder folder;
    write_tokens(folder / "a", counting(0, 100, 5));
    write_tokens(folder / "b", counting(1, 100, 5));
    write_tokens(folder / "copy", counting(0, 100, 5));
    DataSpec spec;
    const auto warnings = [&] { return make_training_data(spec, options_of(folder)).warnings; };
    spec.train = {{folder / "a", 1.0}};
    spec.validation = {{folder / "b", 1.0}};
    CHECK(warnings().empty());
    spec.train = {{folder / "a", 1.0}, {folder / "b", 1.0}, {folder / "copy", 1.0}};
    spec.validation = {};
    REQUIRE(warnings().size() == 1);
    CHECK(contains(warnings().front(), "data.train: " + (folder / "a").string() + " and " +
                                           (folder / "copy").string() + " hold the same tokens"));
    spec.train = {{folder / "a", 1.0}};
    spec.validation = {{folder / "b", 1.0}, {folder / "copy", 1.0}};
    REQUIRE(warnings().size() == 1);
    CHECK(contains(warnings().front(), "data.validation: " + (folder / "copy").string() +
                                           " holds the tokens of " + (folder / "a").string()));
}

}  // namespace
}  // namespace gptrain
