// Data that several ranks open together: each reads its share of what must be checked whole.
#include <array>
#include <fstream>
#include <set>
#include <sstream>

#include "catch.h"
#include "data/gpt_dataset.h"
#include "data/indexed_writer.h"
#include "data/loss_mask.h"
#include "data/token_files.h"
#include "data/training_data.h"
#include "support/common_folder.h"

namespace gptrain::test {
namespace {

namespace fs = std::filesystem;

const MpiSession& ranks() {
    return session();
}

/// Opens a data set on all ranks.
std::shared_ptr<const IndexedDataset> open_together(const fs::path& prefix) {
    std::shared_ptr<const IndexedDataset> tokens;
    ranks().run_on_all(
        [&] { tokens = std::make_shared<const IndexedDataset>(prefix, 0, &ranks()); });
    return tokens;
}

const OrderOptions order_options = {.seed = 7, .seq_length = 8, .num_samples = 500};

/// The order of 20 sequences of 30 tokens, opened by `cache`.
std::vector<std::int64_t> order_of(const fs::path& folder, const IndexCache& cache) {
    std::vector<std::int64_t> order;
    const auto read = [&] {
        const auto tokens = std::make_shared<const IndexedDataset>(folder / "text", 0, cache.ranks);
        const GptDataset data(tokens, {0, 20}, order_options, cache);
        for (std::int64_t i = 0; i < data.size(); ++i)
            order.push_back(data.window_of(i));
    };
    ranks().run_on_all(read);
    return order;
}

fs::path only_index(const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().extension() == ".index") return entry.path();
    return {};
}

}  // namespace

TEST_CASE("Ranks that share the check of token files find what one finds alone") {
    const CommonFolder folder("shared");
    // The second .bin exceeds the 1 MiB that the fingerprint covers in full; in the third, most
    // ranks have no sequence to check.
    const std::vector<std::pair<std::int64_t, std::int64_t>> sizes = {
        {37, 11}, {3000, 401}, {1, 5}};
    for (const auto& [count, length] : sizes) {
        const fs::path prefix = folder.path() / text("text-", count);
        ranks().run_on_first([&, count = count, length = length] {
            Sequences sequences = counting(0, count, length);
            sequences.push_back({});
            write_tokens(prefix, sequences, true);
        });
        const IndexedDataset alone(prefix);
        const auto together = open_together(prefix);
        CHECK(together->fingerprint() == alone.fingerprint());
        CHECK(together->num_tokens() == count * length);
        CHECK(IndexedDataset(prefix, 3).num_tokens() == count * (length + 3));
    }
}

TEST_CASE("Ranks that share the check of a loss mask and weights find what one finds alone") {
    const CommonFolder folder("mask");
    const fs::path prefix = folder.path() / "text";
    ranks().run_on_first([&] {
        IndexedWriter writer(prefix, DType::u16, true);
        for (int document = 0; document < 50; ++document) {
            std::vector<std::int32_t> ids;
            std::vector<std::uint8_t> learned;
            for (int i = 0; i < 37 + document; ++i) {
                ids.push_back(i);
                learned.push_back(i * document % 5 < 2 ? 1 : 0);
            }
            std::vector<float> weights(learned.begin(), learned.end());
            for (std::size_t i = 0; i < weights.size(); i += 3)
                weights[i] /= 4;
            writer.add_sequence(ids, learned, weights);
            writer.end_document();
        }
        writer.commit(TokenMeta{.tokenizer_file = "t", .program = "test"});
    });
    const auto together = open_together(prefix);
    CHECK(together->fingerprint() == IndexedDataset(prefix).fingerprint());
    for (const std::string split : {"1", "7,2,1"}) {
        for (const std::int64_t virtual_tokens : {0, 3}) {
            DataSpec spec;
            spec.train = {{prefix, 1.0}};
            spec.split = split;
            const auto counted = [&](const MpiSession* by) {
                DataOptions options;
                options.seed = 1;
                options.seq_length = 16;
                options.eval_samples = split == "1" ? 0 : 4;
                options.cache = {folder.path() / text("cache-", by ? -1 : ranks().rank()), by};
                options.virtual_tokens = virtual_tokens;
                TrainingData data;
                const auto open = [&] { data = make_training_data(spec, options); };
                by == nullptr ? open() : by->run_on_all(open);
                return std::array{data.train_tokens, data.learned_tokens, data.validation_tokens};
            };
            CHECK(counted(&ranks()) == counted(nullptr));
        }
    }
    // A bit of the last rank's share.
    const auto damage = [&](const fs::path& path, std::size_t from_end) {
        ranks().max(0);
        ranks().run_on_first([&] {
            std::string damaged = contents(path);
            damaged[damaged.size() - from_end] ^= 1;
            fill(path, damaged);
        });
    };
    damage(weights_path(prefix), 4);  // the lowest of a weight
    CHECK(contains(common_error([&] { open_together(prefix); }), "text.weights: is damaged"));
    damage(weights_path(prefix), 4);
    damage(mask_path(prefix), 2);
    CHECK(contains(common_error([&] { open_together(prefix); }), "text.mask: is damaged"));
}

TEST_CASE("Each hostile token data set is refused on all ranks, by the rank that has the fault") {
    const std::string corpus = std::string(GPTRAIN_TEST_DATA) + "/../corpus/indexed/";
    std::ifstream lines(corpus + "expected.txt");
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
        const std::string name = line.substr(0, line.find('\t'));
        const std::string alone =
            message_of(ExitCode::bad_input, [&] { IndexedDataset{corpus + name}; });
        const std::string together = common_error([&] { open_together(corpus + name); });
        CAPTURE(name, alone, together);
        // Where sequences continue at a wrong place, two ranks may see it, and the first one
        // speaks.
        CHECK(contains(together, alone.substr(0, alone.find(": ") + 2)));
        CHECK(contains(together, ranks().size() == 1 ? "" : "rank "));
    }
    CHECK(count > 40);
}

TEST_CASE("A rank with other token files than rank 0 is named") {
    if (ranks().size() == 1) return;
    const CommonFolder folder("others");
    const int last = ranks().size() - 1;
    const bool other = ranks().rank() == last;
    const fs::path prefix = folder.path() / (other ? "theirs" : "ours");
    ranks().run_on_all([&] {
        if (ranks().rank() == 0 || other) write_tokens(prefix, counting(other ? 5 : 0, 20, 30));
    });
    const std::string fault = common_error([&] { open_together(prefix); });
    CHECK(contains(fault, text("rank ", last, ": ")));
    CHECK(contains(
        fault,
        "theirs.idx: it, its .bin, .mask or .weights differs from the file that rank 0 reads"));
}

TEST_CASE("Ranks build an index once, and rebuild a damaged one together") {
    const CommonFolder folder("index");
    ranks().run_on_first([&] { write_tokens(folder.path() / "text", counting(0, 20, 30)); });
    const auto expected = order_of(folder.path(), folder.path() / text("cache-", ranks().rank()));
    const IndexCache cache(folder.path() / "cache", &ranks());
    CHECK(order_of(folder.path(), cache) == expected);

    const fs::path index = only_index(cache.folder);
    const auto size = static_cast<std::int64_t>(fs::file_size(index));
    // Damages a byte of each rank's share, one of the checksum, and one of the key.
    std::set<std::int64_t> places = {12, 30, size - 1};
    for (int rank = 0; rank < ranks().size(); ++rank)
        places.insert(size / ranks().size() * rank + 70);
    const std::string whole = contents(index);
    ranks().max(0);  // all have read it
    for (const std::int64_t place : places) {
        ranks().run_on_first([&] {
            std::string damaged = whole;
            damaged[static_cast<std::size_t>(place)] ^= 1;
            fill(index, damaged);
        });
        CAPTURE(place);
        CHECK(order_of(folder.path(), cache) == expected);
        CHECK((contents(index) == whole));
        ranks().max(0);
    }
    ranks().run_on_first([&] { fill(index, whole.substr(0, 100)); });
    CHECK(order_of(folder.path(), cache) == expected);
    CHECK((contents(index) == whole));
}

TEST_CASE("A rank that fails between two common operations ends them on all ranks") {
    const int last = ranks().size() - 1;
    const std::string fault = common_error([&] {
        ranks().run_on_all([&] {
            ranks().run_on_all([] {});
            if (ranks().rank() == last) fail(ExitCode::io, "the disk is full");
            ranks().run_on_all([] {});
            ranks().sum(1);
        });
    });
    CHECK(contains(fault, "the disk is full"));
    CHECK(ranks().sum(2) == 2 * ranks().size());
    CHECK(ranks().exclusive_or(std::uint64_t{1} << ranks().rank()) ==
          (std::uint64_t{1} << ranks().size()) - 1);
}

}  // namespace gptrain::test
