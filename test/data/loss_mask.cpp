#include "data/loss_mask.h"

#include <map>
#include <set>
#include <string>

#include "base/philox.h"
#include "catch.h"
#include "data/batch_loader.h"
#include "data/gpt_dataset.h"
#include "data/indexed_writer.h"
#include "data/recut_order.h"
#include "data/saved_data.h"
#include "data/sequential_dataset.h"
#include "data/token_files.h"
#include "data/training_data.h"

namespace gptrain {
namespace {

using namespace test;
using Learned = std::vector<std::uint8_t>;

const std::filesystem::path corpus =
    std::filesystem::path(GPTRAIN_TEST_DATA) / "../corpus/lossmask";

// The text that the message on each file of the corpus must contain; empty: the file is right.
const std::map<std::string, std::string>& faults() {
    static const std::map<std::string, std::string> faults = {
        {"good", ""},
        {"empty_mask", ""},
        {"nothing_learned", ""},
        {"empty", "is 0 bytes long, but a loss mask has at least 32"},
        {"header_cut", "is 31 bytes long"},
        {"bits_cut", "is 34 bytes long, which does not match its 19 tokens"},
        {"bits_long", "is 36 bytes long"},
        {"magic", "does not start with GPTMASK"},
        {"big_endian_version", "has version 16777216"},
        {"version_2", "use a newer program"},
        {"bit_flipped", "is damaged: its CRC-32C"},
        {"crc_zero", "is damaged: its CRC-32C"},
        {"learned_more", "has 4 learned tokens, but its header says 5"},
        {"learned_above_tokens", "declares 20 learned tokens of 19"},
        {"learned_huge", "declares 18446744073709551615 learned tokens"},
        {"tokens_more", "does not match its 25 tokens"},
        {"tokens_huge", "does not match its 18446744073709551615 tokens"},
        {"tokens_2_63", "does not match its 9223372036854775808 tokens"},
        {"padding_set", "has bits after its last token"},
        {"other_file", "does not start with GPTMASK"},
    };
    return faults;
}

using Weights = std::vector<float>;

/// Tokens of several documents, whose ids count up, a mask of them, and their weights (empty: 1).
struct Masked {
    Sequences sequences;
    std::vector<Learned> learned;
    std::vector<Weights> weights = {};
};

/// Learns a token that was not learned, or the other way round.
void flip(Masked& masked, std::size_t document, std::size_t token) {
    std::uint8_t& bit = masked.learned[document][token];
    bit ^= 1;
    masked.weights[document][token] = bit;
}

Masked random_masked(std::uint64_t seed, std::int64_t documents) {
    Masked masked;
    std::int32_t id = 0;
    for (std::int64_t i = 0; i < documents; ++i) {
        const PhiloxBlock block =
            philox({static_cast<std::uint32_t>(i), 0, 0, 0}, philox_stream(seed, 0, 0, 0));
        auto& ids = masked.sequences.emplace_back();
        auto& bits = masked.learned.emplace_back();
        auto& weights = masked.weights.emplace_back();
        for (std::uint32_t t = 0; t < 1 + block[0] % 13; ++t) {
            ids.push_back(id++);
            bits.push_back(static_cast<std::uint8_t>(block[1] >> t & 1U));
            const std::uint32_t quarters = 4 - (block[2] >> 2 * (t / 2) & 3U);
            weights.push_back(static_cast<float>(bits.back() * quarters) / 4);
        }
    }
    return masked;
}

TokenMeta meta() {
    return {.tokenizer_file = "tok.json",
            .tokenizer_crc32c = 7,
            .vocab_size = 1000,
            .append_eod = true,
            .documents = 0,
            .tokens = 0,
            .program = "gptrain test"};
}

void add_documents(const Masked& masked, std::size_t begin, std::size_t end,
                   IndexedWriter& writer) {
    for (std::size_t i = begin; i < end; ++i) {
        writer.add_sequence(masked.sequences[i], masked.learned[i],
                            masked.weights.empty() ? Weights{} : masked.weights[i]);
        writer.end_document();
    }
}

void write_masked(const std::filesystem::path& prefix, const Masked& masked) {
    IndexedWriter writer(prefix, DType::u16, true);
    add_documents(masked, 0, masked.sequences.size(), writer);
    writer.commit(meta());
}

TEST_CASE("hostile masks are refused, and it is said why") {
    std::set<std::string> seen;
    for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
        if (entry.path().extension() != ".mask") continue;
        const std::string name = entry.path().stem().string();
        CAPTURE(name);
        seen.insert(name);
        REQUIRE(faults().count(name) == 1);
        const std::string& fault = faults().at(name);
        if (fault.empty()) {
            CHECK_NOTHROW(LossMask(entry.path()));
            continue;
        }
        const std::string message =
            message_of(ExitCode::bad_input, [&] { LossMask mask(entry.path()); });
        CHECK(message.starts_with(entry.path().string() + ": "));
        CHECK(contains(message, fault));
    }
    CHECK(seen.size() == faults().size());
    const LossMask good(corpus / "good.mask");
    CHECK(good.tokens() == 19);
    CHECK(good.learned() == 4);
    Learned bits(19);
    good.read(0, bits);
    CHECK(bits == Learned{0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
    CHECK(good.count(4, 18) == 2);
    CHECK(good.count(18, 19) == 1);
    CHECK(good.count(9, 9) == 0);
}

TEST_CASE("the writer's mask is that of the corpus, byte for byte") {
    const TempFolder folder;
    Masked masked = {counting(0, 1, 19), {Learned(19)}};
    for (const std::size_t token : {3, 4, 8, 18})
        masked.learned[0][token] = 1;
    write_masked(folder / "a", masked);
    CHECK(contents(folder / "a.mask") == contents(corpus / "good.mask"));
    CHECK_FALSE(std::filesystem::exists(folder / "a.weights"));
    const IndexedDataset data(folder / "a");
    CHECK(data.masked());
    CHECK_FALSE(data.weighted());
    CHECK(data.meta()->mask == MaskMeta{LossMask(corpus / "good.mask").checksum(), 4});
}

TEST_CASE("mask and weights come back as they were written, in one part or several") {
    const TempFolder folder;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Masked masked = random_masked(seed, 50);
        write_masked(folder / "whole", masked);
        const IndexedDataset data(folder / "whole");
        std::int64_t learned = 0;
        for (std::size_t i = 0; i < masked.sequences.size(); ++i) {
            Learned read(masked.learned[i].size());
            data.read_learned(static_cast<std::int64_t>(i), 0, read);
            CHECK(read == masked.learned[i]);
            for (std::size_t from = 0; from < read.size(); from += 3) {
                Weights weights(read.size() - from);
                data.read_weights(static_cast<std::int64_t>(i), static_cast<std::int64_t>(from),
                                  weights);
                CHECK(std::equal(weights.begin(), weights.end(),
                                 masked.weights[i].begin() + static_cast<std::ptrdiff_t>(from)));
            }
            const auto own = std::count(read.begin(), read.end(), 1);
            CHECK(data.learned_tokens(static_cast<std::int64_t>(i),
                                      static_cast<std::int64_t>(i) + 1) == own);
            learned += own;
        }
        CHECK(data.learned_tokens(0, data.num_sequences()) == learned);
        CHECK(data.meta()->mask->learned == learned);

        // The parts of two ranks, joined, are the files that one rank writes.
        IndexedWriter first(folder / "joined", DType::u16, true);
        IndexedWriter second(folder / "joined.rank-1", DType::u16, true);
        const std::size_t middle = 7 + seed;
        add_documents(masked, 0, middle, first);
        add_documents(masked, middle, masked.sequences.size(), second);
        second.finish_part();
        first.append_part(folder / "joined.rank-1", second.counts());
        first.commit(meta());
        for (const char* ending : {".bin", ".idx", ".mask", ".weights", ".meta.json"}) {
            CHECK(contents((folder / "joined").string() + ending) ==
                  contents((folder / "whole").string() + ending));
        }
    }
}

TEST_CASE("a mask belongs to its token files") {
    const TempFolder folder;
    const auto refused = [&](const std::string& words) {
        const std::string message =
            message_of(ExitCode::bad_input, [&] { IndexedDataset data(folder / "a"); });
        CHECK(message.starts_with((folder / "a.mask").string() + ": "));
        CHECK(contains(message, words));
    };
    write_masked(folder / "a", random_masked(1, 20));
    const std::string plain = IndexedDataset(folder / "a").fingerprint();
    const std::string own = contents(folder / "a.mask");
    Masked other = random_masked(1, 20);
    flip(other, 3, 0);
    write_masked(folder / "b", other);
    CHECK(IndexedDataset(folder / "b").fingerprint() != plain);
    fill(folder / "a.mask", contents(folder / "b.mask"));
    refused("is the loss mask of other token files");
    fill(folder / "a.mask", own.substr(0, own.size() - 1));
    refused("bytes long");
    std::filesystem::remove(folder / "a.mask");
    refused("no such loss mask");
    fill(folder / "a.mask", own);
    CHECK_NOTHROW(IndexedDataset(folder / "a"));
    std::filesystem::rename(folder / "a.meta.json", folder / "kept");
    refused("names this loss mask");

    // Token files written in their place have no mask.
    IndexedWriter writer(folder / "a", DType::u16);
    writer.add_sequence(std::vector<std::int32_t>{1, 2, 3});
    writer.end_document();
    writer.commit(meta());
    CHECK_FALSE(std::filesystem::exists(folder / "a.mask"));
    CHECK_FALSE(std::filesystem::exists(folder / "a.weights"));
    const IndexedDataset replaced(folder / "a");
    CHECK_FALSE(replaced.masked());
    CHECK(replaced.learned_tokens(0, 1) == 3);
}

/// Checks that a batch's weights are those of its targets. Ids count up from 0.
void check_weights(const StepBatch& batch, const Weights& of_ids) {
    double sum = 0;
    for (const Microbatch& microbatch : batch.microbatches) {
        for (std::size_t i = 0; i < microbatch.targets.size(); ++i) {
            const auto target = static_cast<std::size_t>(microbatch.targets[i]);
            CHECK(microbatch.weights[i] == of_ids.at(target));
            sum += microbatch.weights[i];
        }
    }
    CHECK(batch.weight_sum == sum);
}

Weights flat(const Masked& masked) {
    Weights all;
    for (const Weights& one : masked.weights)
        all.insert(all.end(), one.begin(), one.end());
    return all;
}

TEST_CASE("samples of another length have the weights of their tokens") {
    const TempFolder folder;
    const Masked masked = random_masked(3, 60);
    const Weights of_ids = flat(masked);
    write_masked(folder / "a", masked);
    const auto data = std::make_shared<const IndexedDataset>(folder / "a");
    const auto order = std::make_shared<const GptDataset>(
        data, SequenceRange{0, data->num_sequences()},
        OrderOptions{.seed = 5, .seq_length = 8, .num_samples = 20}, folder / "cache");
    const RecutOrder recut(order, {7, order->size()}, 12, 9, folder / "cache");
    for (const WindowOrder* each :
         {static_cast<const WindowOrder*>(order.get()), static_cast<const WindowOrder*>(&recut)}) {
        std::vector<std::int32_t> ids(static_cast<std::size_t>(each->seq_length() + 1));
        Weights weights(ids.size());
        for (std::int64_t i = 0; i < each->size(); ++i) {
            each->sample(i, ids);
            each->weights(i, weights);
            for (std::size_t t = 0; t < ids.size(); ++t)
                CHECK(weights[t] == of_ids.at(static_cast<std::size_t>(ids[t])));
        }
    }
}

BatchShape small_shape() {
    BatchShape shape;
    shape.seq_length = 8;
    shape.micro_batch_size = 2;
    shape.vocab_size = 1 << 20;
    return shape;
}

TEST_CASE("the loss weight of a token is that of the next one, in every order") {
    const TempFolder folder;
    const Masked masked = random_masked(3, 100);
    Masked plain = random_masked(4, 100);
    const auto first = static_cast<std::int32_t>(flat(masked).size());
    for (auto& sequence : plain.sequences) {
        for (std::int32_t& id : sequence)
            id += first;
    }
    write_masked(folder / "masked", masked);
    write_tokens(folder / "plain", plain.sequences);
    Weights weights = flat(masked);
    const auto in_order = std::make_shared<const IndexedDataset>(folder / "masked");
    const SequentialDataset sequential(in_order, 8);
    for (std::int64_t i = 0; i + 1 < sequential.size(); ++i)
        check_weights(make_step_batch(sequential, small_shape(), 1, i, 2), weights);
    // The last window is not full: padding is not learned, whatever the mask says.
    const StepBatch last = make_step_batch(sequential, small_shape(), 1, sequential.size(), 2);
    CHECK(last.weight_sum == 0);

    weights.resize(weights.size() + flat(plain).size(), 1);
    DataSpec spec;
    spec.train = {{folder / "masked", 0.7}, {folder / "plain", 0.3}};
    spec.split = "80,20";
    const DataOptions options = {1234, 8, std::nullopt, 8, folder / "cache"};
    const TrainingData data = make_training_data(spec, options);
    CHECK(data.learned_tokens < data.train_tokens);
    for (std::int64_t step = 0; step < 40; ++step)
        check_weights(make_step_batch(*data.train, small_shape(), 1, 4 * step, 4), weights);
    for (std::int64_t step = 0; step < 2; ++step)
        check_weights(make_step_batch(*data.validation, small_shape(), 1, 4 * step, 4), weights);

    // This also holds after a change of the data, such as a changed mask.
    DataOptions resumed = options;
    resumed.saved = saved_after(data, 8, 24);
    spec.on_change = OnChange::go_on;
    CHECK_FALSE(make_training_data(spec, resumed).changed);
    Masked changed = masked;
    flip(changed, 0, 0);
    write_masked(folder / "masked", changed);
    weights[0] = changed.weights[0][0];
    const TrainingData continued = make_training_data(spec, resumed);
    CHECK(continued.changed);
    for (std::int64_t step = 6; step < 40; ++step)
        check_weights(make_step_batch(*continued.train, small_shape(), 1, 4 * step, 4), weights);
}

TEST_CASE("an end of document that is not to count does not, in a mask or out of it") {
    const TempFolder folder;
    const Masked masked = {{{1, 2, 9, 3, 4, 5, 6, 9, 7}}, {{0, 1, 1, 1, 0, 1, 1, 1, 0}}};
    write_masked(folder / "a", masked);
    const SequentialDataset source(std::make_shared<const IndexedDataset>(folder / "a"), 8);
    BatchShape shape = small_shape();
    shape.micro_batch_size = 1;
    shape.eod_id = 9;
    shape.reset_at_eod = true;
    CHECK(make_step_batch(source, shape, 1, 0, 1).microbatches[0].weights ==
          std::vector<float>{1, 1, 1, 0, 1, 1, 1, 0});
    shape.eod_mask_loss = true;
    CHECK(make_step_batch(source, shape, 1, 0, 1).microbatches[0].weights ==
          std::vector<float>{1, 1, 0, 0, 1, 1, 1, 0});
}

TEST_CASE("a source without a learned token cannot be trained on, and is not evaluated") {
    const TempFolder folder;
    Masked masked = random_masked(5, 100);
    const auto unlearn = [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
            std::fill(masked.learned[i].begin(), masked.learned[i].end(), std::uint8_t{0});
            std::fill(masked.weights[i].begin(), masked.weights[i].end(), 0.0f);
        }
    };
    unlearn(0, 80);
    write_masked(folder / "a", masked);
    DataSpec spec;
    spec.train = {{folder / "a", 1.0}};
    spec.split = "80,20";
    const DataOptions options = {1234, 8, 20, 8, folder / "cache"};
    const std::string message =
        message_of(ExitCode::bad_input, [&] { make_training_data(spec, options); });
    CHECK(contains(message, "sequences 0 to 80 of 100, contains no learned tokens (loss mask)"));
    masked = random_masked(5, 100);
    unlearn(80, 100);
    write_masked(folder / "a", masked);
    CHECK(make_training_data(spec, options).validation == nullptr);
}

}  // namespace
}  // namespace gptrain
