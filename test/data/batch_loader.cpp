#include "data/batch_loader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "data/endless_dataset.h"
#include "data/gpt_dataset.h"
#include "data/sequential_dataset.h"
#include "data/token_files.h"

namespace gptrain {
namespace {

using namespace test;

constexpr std::int64_t ramp_limit = 24;

/// Every token of sample i is i, so that a batch shows which samples it took.
class Numbered final : public SampleSource {
public:
    explicit Numbered(std::int64_t fault_at = -1) : fault_at_(fault_at) {}
    std::int64_t size() const override { return 1 << 20; }
    std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const override {
        if (index == fault_at_) fail(ExitCode::io, "disk lost");
        std::fill(tokens.begin(), tokens.end(), static_cast<std::int32_t>(index));
        return static_cast<std::int64_t>(tokens.size());
    }
    void weights(std::int64_t, std::span<float> weights) const override {
        std::fill(weights.begin(), weights.end(), 1.0f);
    }
    std::string place_of(std::int64_t index, std::int64_t) const override { return text(index); }

private:
    std::int64_t fault_at_;
};

BatchShape shape_of(std::int64_t micro_batch_size, std::int64_t rank = 0, std::int64_t ranks = 1) {
    BatchShape shape;
    shape.seq_length = 4;
    shape.micro_batch_size = micro_batch_size;
    shape.data_rank = rank;
    shape.data_ranks = ranks;
    shape.vocab_size = 1 << 20;
    return shape;
}

BatchSchedule constant(std::int64_t global_batch_size) {
    return {global_batch_size, {}};
}

/// The samples of a batch in the order of its sequences.
std::vector<std::int32_t> samples_of(const StepBatch& batch) {
    std::vector<std::int32_t> samples;
    for (const Microbatch& microbatch : batch.microbatches) {
        for (std::size_t i = 0; i < microbatch.ids.size(); i += 4)
            samples.push_back(microbatch.ids[i]);
    }
    return samples;
}

void check_equal(const StepBatch& a, const StepBatch& b) {
    CHECK(a.step == b.step);
    CHECK(a.consumed_samples == b.consumed_samples);
    CHECK(a.global_batch_size == b.global_batch_size);
    CHECK(a.weight_sum == b.weight_sum);
    REQUIRE(a.microbatches.size() == b.microbatches.size());
    for (std::size_t m = 0; m < a.microbatches.size(); ++m) {
        CHECK(a.microbatches[m].first_sequence == b.microbatches[m].first_sequence);
        visit_fields(
            [](const TokenField& field, const auto& of_a, const auto& of_b) {
                CAPTURE(field.name);
                CHECK(of_a == of_b);
            },
            a.microbatches[m], b.microbatches[m]);
    }
}

TEST_CASE("the data ranks of a step take each of its samples once, in Megatron's order") {
    const Numbered source;
    for (const std::int64_t ranks : {1, 2, 3}) {
        std::vector<std::int32_t> all;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
            const StepBatch batch = make_step_batch(source, shape_of(2, rank, ranks), 7, 100, 12);
            CHECK(static_cast<std::int64_t>(batch.microbatches.size()) == 6 / ranks);
            CHECK(batch.weight_sum == 48.0 / static_cast<double>(ranks));
            const auto samples = samples_of(batch);
            for (std::size_t i = 0; i < samples.size(); i += 2) {
                const auto m = static_cast<std::int64_t>(i) / 2;
                const std::int64_t first = m * 2 * ranks + rank * 2;
                CHECK(batch.microbatches[i / 2].first_sequence == first);
                CHECK(samples[i] == 100 + first);
                CHECK(samples[i + 1] == 101 + first);
            }
            all.insert(all.end(), samples.begin(), samples.end());
        }
        std::sort(all.begin(), all.end());
        std::vector<std::int32_t> wanted(12);
        std::iota(wanted.begin(), wanted.end(), 100);
        CHECK(all == wanted);
    }
}

TEST_CASE("data ranks take one microbatch more or less of a step that they do not divide") {
    const Numbered source;
    // 8 microbatches: 3, 3 and 2.
    const std::vector<std::vector<std::int32_t>> wanted = {
        {100, 101, 106, 107, 112, 113}, {102, 103, 108, 109, 114, 115}, {104, 105, 110, 111}};
    for (std::int64_t rank = 0; rank < 3; ++rank) {
        const StepBatch batch = make_step_batch(source, shape_of(2, rank, 3), 7, 100, 16);
        CHECK(samples_of(batch) == wanted[static_cast<std::size_t>(rank)]);
        CHECK(batch.microbatches.back().first_sequence == (rank < 2 ? 12 : 6) + 2 * rank);
        CHECK(batch.weight_sum == (rank < 2 ? 24 : 16));
        CHECK(std::ssize(batch.microbatches) == dealt_microbatches(8, 3, rank));
    }
    CHECK_THROWS_AS(make_step_batch(source, shape_of(2, 0, 3), 7, 100, 15), Error);
}

TEST_CASE("data ranks with equal counts repeat a microbatch without weight") {
    const Numbered source;
    for (const std::int64_t size : {14, 16, 18}) {
        double weight_sum = 0;
        for (std::int64_t rank = 0; rank < 3; ++rank) {
            BatchShape shape = shape_of(2, rank, 3);
            StepBatch plain = make_step_batch(source, shape, 7, 100, size);
            shape.equal_counts = true;
            const StepBatch equal = make_step_batch(source, shape, 7, 100, size);
            CHECK(equal.microbatches.size() == 3);
            weight_sum += equal.weight_sum;
            if (plain.microbatches.size() == 2) {
                plain.microbatches.push_back(plain.microbatches.back());
                std::ranges::fill(plain.microbatches.back().weights, 0.0f);
            }
            check_equal(equal, plain);
        }
        CHECK(weight_sum == 4.0 * static_cast<double>(size));
    }
}

TEST_CASE("microbatches are dealt to data ranks so that their numbers differ by one at most") {
    for (std::int64_t ranks = 1; ranks <= 16; ++ranks) {
        for (std::int64_t microbatches = ranks; microbatches <= 3 * ranks; ++microbatches) {
            std::int64_t sum = 0;
            for (std::int64_t rank = 0; rank < ranks; ++rank) {
                const std::int64_t own = dealt_microbatches(microbatches, ranks, rank);
                CHECK((own == microbatches / ranks || own == (microbatches - 1) / ranks + 1));
                CHECK(own <= dealt_microbatches(microbatches, ranks, 0));
                sum += own;
            }
            CHECK(sum == microbatches);
        }
    }
}

TEST_CASE("a loader gives what the steps one by one give, at any depth and resumed anywhere") {
    const TempFolder folder;
    const auto tokens = make_tokens(folder / "a", counting(0, 40, 11));
    const auto source = std::make_shared<const GptDataset>(
        tokens, SequenceRange{0, 40}, OrderOptions{1, 4, 100}, folder / "cache");
    BatchShape shape = shape_of(2);
    shape.eod_id = 10;
    shape.reset_at_eod = true;
    const BatchSchedule ramp{8, {2, 2, ramp_limit}};

    std::vector<StepBatch> wanted;
    std::int64_t consumed = 0;
    for (std::int64_t step = 1; step <= 12; ++step) {
        wanted.push_back(make_step_batch(*source, shape, step, consumed, ramp.size_at(consumed)));
        consumed += wanted.back().global_batch_size;
    }
    CHECK(wanted.front().global_batch_size == 2);
    CHECK(wanted[4].global_batch_size == 4);
    CHECK(wanted.back().global_batch_size == 8);
    for (const std::int64_t depth : {1, 2, 30}) {
        for (const std::size_t first : {0, 3, 11}) {
            const StepRange range{static_cast<std::int64_t>(first) + 1, 12,
                                  wanted[first].consumed_samples};
            BatchLoader loader(source, ramp, shape, range, depth);
            for (std::size_t i = first; i < wanted.size(); ++i)
                check_equal(loader.next(), wanted[i]);
            CHECK_THROWS_AS(loader.next(), Error);
        }
    }
}

TEST_CASE("a loader may go before its batches were asked for") {
    const auto source = std::make_shared<const Numbered>();
    for (int i = 0; i < 20; ++i) {
        BatchLoader loader(source, constant(4), shape_of(2), {1, 1000, 0});
        if (i % 2 == 0) CHECK(samples_of(loader.next()) == std::vector<std::int32_t>{0, 1, 2, 3});
    }
}

TEST_CASE("a fault of the thread is thrown when its step's turn has come") {
    const auto source = std::make_shared<const Numbered>(9);
    BatchLoader loader(source, constant(4), shape_of(2), {1, 10, 0}, 5);
    CHECK(loader.next().step == 1);
    CHECK(loader.next().step == 2);
    for (int again = 0; again < 2; ++again) {
        CHECK(message_of(ExitCode::io, [&] { loader.next(); }) == "disk lost");
    }
}

TEST_CASE("ends of documents reset attention and positions and lose their weight as asked") {
    // One sample: ids 5 0 6 7 0 0 8 9 and then the target 0; 0 ends a document.
    const SequentialDataset source({5, 0, 6, 7, 0, 0, 8, 9, 0}, "text", 8);
    BatchShape shape = shape_of(1);
    shape.seq_length = 8;
    shape.vocab_size = 10;
    shape.eod_id = 0;
    const auto first = [&] { return make_step_batch(source, shape, 1, 0, 1).microbatches[0]; };

    CHECK(first().ids == std::vector<std::int32_t>{5, 0, 6, 7, 0, 0, 8, 9});
    CHECK(first().targets == std::vector<std::int32_t>{0, 6, 7, 0, 0, 8, 9, 0});
    CHECK(first().positions == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(first().first_visible.empty());
    CHECK(first().first_in_window.empty());
    CHECK(first().weights == std::vector<float>(8, 1.0f));

    // A token sees itself and the one before.
    shape.sliding_window = 2;
    CHECK(first().first_in_window == std::vector<std::int32_t>{0, 0, 1, 2, 3, 4, 5, 6});

    shape.reset_at_eod = true;
    CHECK(first().first_in_window == std::vector<std::int32_t>{0, 0, 2, 2, 3, 5, 6, 6});
    CHECK(first().positions == std::vector<std::int32_t>{0, 1, 0, 1, 2, 0, 0, 1});
    CHECK(first().first_visible == std::vector<std::int32_t>{0, 0, 2, 2, 2, 5, 6, 6});
    CHECK(first().weights == std::vector<float>(8, 1.0f));

    shape.eod_mask_loss = true;
    CHECK(first().weights == std::vector<float>{1, 0, 1, 1, 0, 0, 1, 1});
    CHECK(make_step_batch(source, shape, 1, 0, 1).weight_sum == 5.0);
}

template <class T>
using OneByte = char;

TEST_CASE("the list of fields has each one once, and a loader fills those that a run has") {
    TokenFields<OneByte> fields{};
    std::set<std::string_view> names;
    visit_fields(
        [&](const TokenField& field, char& visits) {
            ++visits;
            names.insert(field.name);
        },
        fields);
    std::array<char, sizeof fields> once{};
    once.fill(1);
    CHECK(std::bit_cast<std::array<char, sizeof fields>>(fields) == once);
    CHECK(names.size() == sizeof fields);

    const BatchMasks masks = {
        .documents = GENERATE(true, false), .window = GENERATE(true, false), .sources = true};
    BatchShape shape = shape_of(3);
    shape.eod_id = 0;
    shape.reset_at_eod = masks.documents;
    if (masks.window) shape.sliding_window = 2;
    const StepBatch batch = make_step_batch(Numbered(), shape, 1, 0, 3);
    visit_fields(
        [&](const TokenField& field, const auto& values) {
            CAPTURE(field.name);
            const std::int64_t all = field.shape_in({3, 4}).elements();
            CHECK(std::ssize(values) == (field.is_in(masks) ? all : 0));
        },
        batch.microbatches[0]);
}

TEST_CASE("padding after the end of a text has no weight") {
    const SequentialDataset source({1, 2, 3, 4, 5, 6, 7}, "text", 4);
    const StepBatch batch = make_step_batch(source, shape_of(3), 1, 0, 3);
    CHECK(batch.microbatches[0].weights == std::vector<float>{1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0});
    CHECK(batch.weight_sum == static_cast<double>(source.num_targets()));
}

TEST_CASE("an id outside the vocabulary is refused with file, sequence and token") {
    const TempFolder folder;
    const auto tokens =
        make_tokens(folder / "a", {{1, 2, 3}, {4, 99999, 6, 7}, {}, {1, 2, 3}}, true);
    const auto source = std::make_shared<const GptDataset>(tokens, SequenceRange{0, 4},
                                                           OrderOptions{1, 4, 2}, folder / "cache");
    const std::string wanted =
        (folder / "a.bin").string() + ": sequence 1, token 1: token id 99999";
    BatchShape shape = shape_of(2);
    shape.vocab_size = 99999;
    BatchLoader loader(source, constant(2), shape, {1, 1, 0});
    CHECK(message_of(ExitCode::bad_input, [&] { loader.next(); }).rfind(wanted, 0) == 0);
    shape.vocab_size = 100000;
    CHECK_NOTHROW(make_step_batch(*source, shape, 1, 0, 2));

    // A negative id in an int32 file.
    const auto negative = make_tokens(folder / "b", {{1, -5, 3}}, true);
    const SequentialDataset text(negative, 4);
    CHECK(contains(message_of(ExitCode::bad_input, [&] { make_step_batch(text, shape, 1, 0, 2); }),
                   "b.bin: sequence 0, token 1: token id -5"));
}

TEST_CASE("beyond the last sample a new pass begins in the order of the next seed") {
    const TempFolder folder;
    const auto tokens = make_tokens(folder / "a", counting(0, 30, 5));
    const auto open = [&](std::int64_t pass, const IndexCache& cache) {
        return std::make_shared<const GptDataset>(
            tokens, SequenceRange{0, 30},
            OrderOptions{100 + static_cast<std::uint64_t>(pass), 4, 10}, cache);
    };
    const EndlessDataset endless(open, 10, folder / "cache");
    std::vector<std::int32_t> sample(5);
    std::vector<std::int32_t> wanted(5);
    for (const std::int64_t index : {0, 9, 10, 19, 25, 3}) {
        endless.sample(index, sample);
        open(index / 10, folder / "cache")->sample(index % 10, wanted);
        CHECK(sample == wanted);
    }
}

}  // namespace
}  // namespace gptrain
