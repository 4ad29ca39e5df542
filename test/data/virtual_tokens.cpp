// Token files whose sequences begin with virtual tokens.
#include "catch.h"
#include "data/batch_loader.h"
#include "data/gpt_dataset.h"
#include "data/sequential_dataset.h"
#include "token_files.h"

namespace gptrain::test {
namespace {

constexpr std::int64_t count = 3;

std::shared_ptr<const IndexedDataset> with_virtual_tokens(const std::filesystem::path& prefix,
                                                          const Sequences& sequences,
                                                          bool wide = false) {
    write_tokens(prefix, sequences, wide);
    return std::make_shared<const IndexedDataset>(prefix, count);
}

BatchShape shape_of(std::int64_t length) {
    BatchShape shape;
    shape.seq_length = length;
    shape.micro_batch_size = 1;
    shape.vocab_size = 100;
    shape.virtual_tokens = count;
    shape.eod_id = 9;
    shape.reset_at_eod = true;
    return shape;
}

}  // namespace

TEST_CASE("every sequence with tokens begins with virtual tokens, which are not learned") {
    const TempFolder folder;
    const auto tokens = with_virtual_tokens(folder / "a", {{1, 2, 9}, {}, {4, 9}});
    CHECK(tokens->num_tokens() == 5 + 2 * count);
    CHECK(tokens->sequence_length(0) == 6);
    CHECK(tokens->sequence_length(1) == 0);
    CHECK(tokens->learned_tokens(0, 3) == 5);
    // Any part of a sequence.
    const std::vector<std::int32_t> ids = {-3, -2, -1, 1, 2, 9};
    for (std::int64_t begin = 0; begin <= 6; ++begin) {
        for (std::int64_t end = begin; end <= 6; ++end) {
            std::vector<std::int32_t> part(static_cast<std::size_t>(end - begin));
            std::vector<std::uint8_t> learned(part.size());
            tokens->read(0, begin, end - begin, part.data());
            tokens->read_learned(0, begin, learned);
            CHECK(part == std::vector(ids.begin() + begin, ids.begin() + end));
            for (std::size_t i = 0; i < part.size(); ++i)
                CHECK(learned[i] == (part[i] >= 0 ? 1 : 0));
        }
    }
    const SequentialDataset all(tokens, 10);
    const Microbatch batch = make_step_batch(all, shape_of(10), 1, 0, 1).microbatches[0];
    CHECK(batch.ids == std::vector<std::int32_t>{-3, -2, -1, 1, 2, 9, -3, -2, -1, 4});
    CHECK(batch.targets == std::vector<std::int32_t>{-2, -1, 1, 2, 9, -3, -2, -1, 4, 9});
    CHECK(batch.weights == std::vector<float>{0, 0, 1, 1, 1, 0, 0, 0, 1, 1});
    CHECK(batch.positions == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3});
    CHECK(batch.first_visible == std::vector<std::int32_t>{0, 0, 0, 0, 0, 0, 6, 6, 6, 6});
}

TEST_CASE("the order of samples counts virtual tokens, and its index is another") {
    const TempFolder folder;
    const auto tokens = with_virtual_tokens(folder / "a", counting(0, 20, 7));
    const auto plain = std::make_shared<const IndexedDataset>(folder / "a");
    const OrderOptions options = {.seed = 5, .seq_length = 8, .num_samples = 20};
    const GptDataset order(tokens, {0, 20}, options, folder / "cache");
    const GptDataset other(plain, {0, 20}, options, folder / "cache");
    CHECK(order.key() != other.key());
    std::vector<std::int32_t> ids(9);
    for (std::int64_t i = 0; i < order.size(); ++i) {
        order.sample(i, ids);
        for (std::size_t t = 1; t < ids.size(); ++t) {
            // A virtual token after the end of a sequence or another one; else the text continues.
            const bool begins = ids[t] == -count && ids[t - 1] % 7 == 6;
            const bool first = ids[t - 1] == -1 && ids[t] >= 0 && ids[t] % 7 == 0;
            CHECK((begins || first ||
                   (ids[t] == ids[t - 1] + 1 && (ids[t] < 0) == (ids[t - 1] < 0))));
        }
    }
}

TEST_CASE("an id below 0 in a file is no virtual token") {
    const TempFolder folder;
    const auto tokens = with_virtual_tokens(folder / "a", {{1, -1, 5}}, true);
    std::vector<std::int32_t> ids(6);
    const std::string message =
        message_of(ExitCode::bad_input, [&] { tokens->read(0, 0, 6, ids.data()); });
    CHECK(message ==
          text((folder / "a.bin").string(), ": sequence 0, token 1: token id -1 is below 0"));
}

TEST_CASE("ids in memory have virtual tokens, too") {
    const SequentialDataset source({-3, -2, -1, 1, 2, -3, -2, -1, 4}, "text", 8);
    const Microbatch batch = make_step_batch(source, shape_of(8), 1, 0, 1).microbatches[0];
    CHECK(batch.weights == std::vector<float>{0, 0, 1, 1, 0, 0, 0, 1});
    BatchShape fewer = shape_of(8);
    fewer.virtual_tokens = 2;
    CHECK(message_of(ExitCode::bad_input, [&] { make_step_batch(source, fewer, 1, 0, 1); }) ==
          "text: token 0: token id -3 is outside the vocabulary (100); the data was made with "
          "another tokenizer, or model.vocab_size is wrong");
}

}  // namespace gptrain::test
